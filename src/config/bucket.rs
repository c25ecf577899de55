//! Which bucket, and with whose credentials: flags, environment, and the file of credentials that
//! other tools share.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use ini::Ini;
use thiserror::Error;

use crate::bucket::{Addressing, BucketSettings, BucketUrl, Credentials, Endpoint};

const ACCESS_KEY: &str = "aws_access_key_id";
const SECRET_KEY: &str = "aws_secret_access_key";
const SESSION_TOKEN: &str = "aws_session_token";
const DEFAULT_PROFILE: &str = "default";
/// What stores without regions take for theirs.
const DEFAULT_REGION: &str = "us-east-1";

/// Where the bucket is.
#[derive(Debug, Clone, Default, Args)]
pub struct BucketArgs {
    /// Address of a store that is not Amazon's: https://HOST[:PORT], or http:
    #[arg(long, value_name = "URL", env = "WASMKEEP_ENDPOINT")]
    pub endpoint: Option<Endpoint>,
    /// Region of the bucket [default: AWS_REGION, AWS_DEFAULT_REGION, and with --endpoint us-east-1]
    #[arg(long, value_name = "REGION", env = "WASMKEEP_REGION")]
    pub region: Option<String>,
    /// Where the bucket's name stands in addresses [default: path with --endpoint or a name with
    /// dots, else host]
    #[arg(long, value_name = "WHERE", env = "WASMKEEP_ADDRESSING")]
    pub addressing: Option<Addressing>,
}

#[derive(Debug, Error)]
pub enum BucketConfigError {
    #[error(
        "the bucket's region is not known: give --region REGION or set AWS_REGION; for a store that \
         is not Amazon's, give --endpoint URL"
    )]
    NoRegion,
    #[error("{from} {region:?} is no region's name: letters, digits and `-`")]
    WrongRegion { from: &'static str, region: String },
    #[error(
        "there are no credentials for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         write them to {path}"
    )]
    NoCredentials { path: PathBuf },
    #[error("{given} is set and {lacks} is not: set both, or neither to use a file of credentials")]
    Half { given: &'static str, lacks: &'static str },
    #[error("{name} is not one line of visible ASCII characters")]
    WrongVariable { name: &'static str },
    #[error("the file of credentials {path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "the file of credentials {path} is not of the form [PROFILE], NAME = value: line {line}"
    )]
    WrongFile { path: PathBuf, line: usize },
    #[error(
        "the file of credentials {path} has no profile [{profile}]: choose another with AWS_PROFILE"
    )]
    NoProfile { path: PathBuf, profile: String },
    #[error("the profile [{profile}] in {path} has no usable {name}")]
    LacksKey { path: PathBuf, profile: String, name: &'static str },
    #[error(
        "no home directory is known, where a file of credentials would be: set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE"
    )]
    NoHome,
}

impl BucketArgs {
    /// With what the environment says, and a file of it. An empty variable says nothing.
    pub(super) fn merge(
        &self,
        url: BucketUrl,
        variable: &dyn Fn(&str) -> Option<String>,
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<BucketSettings, BucketConfigError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let region = self.region(&variable)?;
        let endpoint = self.endpoint.clone().unwrap_or_else(|| Endpoint::of_aws(&region));
        let addressing = self.addressing.unwrap_or_else(|| {
            // A certificate for *.HOST does not cover a name with dots.
            let is_in_path = self.endpoint.is_some() || url.name().contains('.');
            if is_in_path { Addressing::Path } else { Addressing::Host }
        });
        let credentials = credentials(&variable, read)?;
        Ok(BucketSettings { url, endpoint, region, addressing, credentials })
    }

    fn region(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, BucketConfigError> {
        let given = self.region.clone().map(|region| ("--region", region));
        let named = |name: &'static str| variable(name).map(|region| (name, region));
        let found = given.or_else(|| named("AWS_REGION")).or_else(|| named("AWS_DEFAULT_REGION"));
        let Some((from, region)) = found else {
            let default = self.endpoint.as_ref().map(|_| DEFAULT_REGION.to_owned());
            return default.ok_or(BucketConfigError::NoRegion);
        };
        let is_plain = region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if region.is_empty() || !is_plain {
            return Err(BucketConfigError::WrongRegion { from, region });
        }
        Ok(region)
    }
}

/// From the environment, or else from the file of credentials.
fn credentials(
    variable: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Credentials, BucketConfigError> {
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    let checked = |name: &'static str| match variable(name) {
        Some(value) if !is_plain(&value) => Err(BucketConfigError::WrongVariable { name }),
        value => Ok(value),
    };
    match (checked(id)?, checked(secret)?) {
        (Some(access_key), Some(secret_key)) => {
            let session_token = checked("AWS_SESSION_TOKEN")?;
            Ok(Credentials { access_key, secret_key, session_token })
        }
        (Some(_), None) => Err(BucketConfigError::Half { given: id, lacks: secret }),
        (None, Some(_)) => Err(BucketConfigError::Half { given: secret, lacks: id }),
        (None, None) => {
            let profile = variable("AWS_PROFILE").unwrap_or_else(|| DEFAULT_PROFILE.into());
            let named = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
            let home = || variable("HOME").map(|home| Path::new(&home).join(".aws/credentials"));
            let path = named.or_else(home).ok_or(BucketConfigError::NoHome)?;
            of_file(&path, &profile, read)
        }
    }
}

/// No error holds anything of a line: it may be the secret.
fn of_file(
    path: &Path,
    profile: &str,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Credentials, BucketConfigError> {
    let path = path.to_owned();
    let text = match read(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            return Err(BucketConfigError::NoCredentials { path });
        }
        Err(cause) => return Err(BucketConfigError::Unreadable { path, cause }),
    };
    let file = Ini::load_from_str_noescape(&text).map_err(|error| {
        BucketConfigError::WrongFile { path: path.clone(), line: error.line + 1 }
    })?;
    let profile = profile.to_owned();
    let Some(section) = file.section(Some(&*profile)) else {
        return Err(BucketConfigError::NoProfile { path, profile });
    };
    let value = |name: &'static str| match section.get(name).map(str::trim) {
        Some(value) if is_plain(value) => Ok(value.to_owned()),
        _ => {
            Err(BucketConfigError::LacksKey { path: path.clone(), profile: profile.clone(), name })
        }
    };
    Ok(Credentials {
        access_key: value(ACCESS_KEY)?,
        secret_key: value(SECRET_KEY)?,
        session_token: section.get(SESSION_TOKEN).map(|_| value(SESSION_TOKEN)).transpose()?,
    })
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use super::*;

    const KEYS: [(&str, &str); 2] =
        [("AWS_ACCESS_KEY_ID", "an-id"), ("AWS_SECRET_ACCESS_KEY", "s3cret/+=")];

    fn resolve(
        args: BucketArgs,
        url: &str,
        variables: &[(&str, &str)],
    ) -> Result<BucketSettings, BucketConfigError> {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        args.merge(url.parse().expect("a URL"), &variable, &|path| fs::read_to_string(path))
    }

    fn nothing() -> BucketArgs {
        BucketArgs::default()
    }

    fn at_a_store() -> BucketArgs {
        let endpoint = "http://127.0.0.1:9000".parse().expect("an endpoint");
        BucketArgs { endpoint: Some(endpoint), ..nothing() }
    }

    #[test]
    fn a_store_of_ones_own_needs_no_region_and_has_the_name_in_the_path() {
        let settings = resolve(at_a_store(), "s3://abc", &KEYS).expect("resolves");
        assert_eq!(settings.endpoint.as_str(), "http://127.0.0.1:9000");
        assert_eq!(
            (settings.region.as_str(), settings.addressing),
            ("us-east-1", Addressing::Path)
        );
        let args = BucketArgs { addressing: Some(Addressing::Host), ..at_a_store() };
        assert_eq!(
            resolve(args, "s3://abc", &KEYS).expect("resolves").addressing,
            Addressing::Host
        );
    }

    #[test]
    fn amazons_needs_a_region_from_somewhere() {
        let error = resolve(nothing(), "s3://abc", &KEYS).expect_err("no region").to_string();
        assert!(error.contains("--region") && error.contains("--endpoint"), "{error}");
        let with = |variables: &[(&'static str, &'static str)], region: Option<&str>| {
            let args = BucketArgs { region: region.map(str::to_owned), ..nothing() };
            let all = [&KEYS[..], variables].concat();
            resolve(args, "s3://abc", &all).expect("resolves").region
        };
        let (first, second) = (("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "eu-west-2"));
        assert_eq!(with(&[second], None), "eu-west-2");
        assert_eq!(with(&[first, second], None), "eu-west-1");
        assert_eq!(with(&[first, second], Some("eu-west-3")), "eu-west-3");
        let args = BucketArgs { region: Some("eu west".into()), ..nothing() };
        let error = resolve(args, "s3://abc", &KEYS).expect_err("wrong").to_string();
        assert!(error.contains("--region \"eu west\""), "{error}");
    }

    #[test]
    fn the_name_of_amazons_buckets_is_in_the_host_unless_it_has_dots() {
        let region = [&KEYS[..], &[("AWS_REGION", "eu-west-1")]].concat();
        let settings = resolve(nothing(), "s3://abc", &region).expect("resolves");
        assert_eq!(settings.endpoint.as_str(), "https://s3.eu-west-1.amazonaws.com");
        assert_eq!(settings.addressing, Addressing::Host);
        let dots = resolve(nothing(), "s3://a.b.c", &region).expect("resolves");
        assert_eq!(dots.addressing, Addressing::Path);
    }

    #[test]
    fn credentials_of_the_environment_come_first_and_whole() {
        let token = [&KEYS[..], &[("AWS_SESSION_TOKEN", "a-token")]].concat();
        let of = |variables: &[(&str, &str)]| {
            resolve(at_a_store(), "s3://abc", variables).map(|settings| settings.credentials)
        };
        let found = of(&token).expect("resolves");
        assert_eq!(found.session_token.as_deref(), Some("a-token"));
        assert_eq!(of(&KEYS).expect("resolves").session_token, None);
        for half in KEYS {
            let error = of(&[half]).expect_err("half").to_string();
            assert!(KEYS.iter().all(|(name, _)| error.contains(name)), "{error}");
            assert!(!error.contains(half.1), "{error}");
        }
        let broken = [KEYS[0], ("AWS_SECRET_ACCESS_KEY", "s3cret\n")];
        let error = of(&broken).expect_err("two lines").to_string();
        assert!(error.contains("AWS_SECRET_ACCESS_KEY") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_file_of_credentials_has_profiles() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials");
        fs::write(
            &path,
            "# comment\n[default]\naws_access_key_id = one\naws_secret_access_key=first/+=\\x\n\n\
             [other]\naws_access_key_id=two\naws_secret_access_key = second\n\
             aws_session_token = token==\nregion = eu-west-1\n[half]\naws_access_key_id = three\n",
        )
        .expect("write it");
        let file = path.to_str().expect("UTF-8");
        let of = |profile: &str| {
            let variables = [("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_PROFILE", profile)];
            resolve(at_a_store(), "s3://abc", &variables).map(|settings| settings.credentials)
        };
        let default = of("").expect("the default");
        assert_eq!((&*default.access_key, &*default.secret_key), ("one", "first/+=\\x"));
        let other = of("other").expect("another");
        assert_eq!(other.session_token.as_deref(), Some("token=="));
        let error = of("half").expect_err("half").to_string();
        assert!(error.contains("[half]") && error.contains(SECRET_KEY), "{error}");
        let error = of("none").expect_err("none").to_string();
        assert!(error.contains("[none]") && error.contains("AWS_PROFILE"), "{error}");
    }

    #[test]
    fn a_file_that_is_none_is_named_and_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().to_str().expect("UTF-8");
        let of =
            || resolve(at_a_store(), "s3://abc", &[("HOME", home)]).expect_err("none").to_string();
        assert!(
            of().contains(".aws/credentials") && of().contains("AWS_ACCESS_KEY_ID"),
            "{}",
            of()
        );
        fs::create_dir(folder.path().join(".aws")).expect("a folder");
        let path = folder.path().join(".aws/credentials");
        fs::write(&path, "[default]\naws_access_key_id = a\nthe-secret\n").expect("write it");
        assert!(of().contains("line") && !of().contains("the-secret"), "{}", of());
        fs::remove_file(&path).expect("remove it");
        fs::create_dir(&path).expect("a folder in its place");
        assert!(of().contains("cannot be read"), "{}", of());
        let error = resolve(at_a_store(), "s3://abc", &[]).expect_err("no home").to_string();
        assert!(error.contains("AWS_SHARED_CREDENTIALS_FILE"), "{error}");
    }
}
