//! `wasmkeep bucket check`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_supervisors::ports::{Denial, Doubt};

use crate::bucket::{
    BucketSettings, BucketUrl, ETagForm, ProbeError, Probed, S3Bucket, SystemRandom, Violation,
    probe,
};
use crate::cli::exit::Ended;
use crate::config::BucketArgs;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bucket, and the prefix below which everything is
    #[arg(value_name = "s3://BUCKET[/PREFIX]", env = "WASMKEEP_BUCKET")]
    bucket: BucketUrl,
    #[command(flatten)]
    at: BucketArgs,
}

pub async fn run(args: Args) -> Result<()> {
    let settings = args.at.resolve(args.bucket)?;
    let metrics = Arc::new(Metrics::new().context("make counters")?);
    let bucket = S3Bucket::new(&settings, metrics)?;
    let place = place(&settings);
    match probe(&bucket, &SystemRandom).await {
        Ok(probed) => {
            write!(io::stdout().lock(), "{}", report(&place, &probed))?;
            Ok(())
        }
        Err(ProbeError::Violated(violation)) => {
            let advice = advice_on_violation(violation);
            let message = format!("{place} is not fit for a cluster: {violation}. {advice}");
            Err(Ended::refused(message).into())
        }
        Err(ProbeError::Denied { doing, denial }) => {
            let advice = advice_on_denial(&settings, &denial);
            anyhow::bail!("{place} was not tried out: to {doing}: {denial}. {advice}")
        }
        Err(ProbeError::Inconclusive { doing, doubt }) => {
            let advice = advice_on_doubt(&settings, &doubt);
            anyhow::bail!("{place} was not tried out to the end: to {doing}: {doubt}. {advice}")
        }
    }
}

fn place(settings: &BucketSettings) -> String {
    let BucketSettings { url, endpoint, region, addressing, .. } = settings;
    format!("{url} at {endpoint} (region {region}, name in the {})", addressing.as_str())
}

fn report(place: &str, probed: &Probed) -> String {
    let etags = match probed.form {
        ETagForm::Quoted => "compared in quotes, as HTTP has it",
        ETagForm::Unquoted => "compared without quotes, as Ceph does",
    };
    let clock = match probed.has_dates {
        true => "told with each answer",
        false => "not told: writes are acknowledged by the nodes' own clocks alone",
    };
    let of = probed.latencies;
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    format!(
        "{place} is fit for a cluster\n\
         conditions  create, refused create, update, refused stale update, one winner of many\n\
         etags       {etags}\n\
         clock       {clock}\n\
         latency     put {}, get {}, list {}, delete {}\n",
        ms(of.put),
        ms(of.get),
        ms(of.list),
        ms(of.delete),
    )
}

fn advice_on_violation(violation: Violation) -> &'static str {
    match violation {
        Violation::IgnoresAbsent
        | Violation::IgnoresMatch
        | Violation::WritesWhenMissing
        | Violation::NoConditions => {
            "Use a store, or a newer release of this one, whose conditional writes hold, and see to it \
             that no proxy drops the headers; docs/bucket.md lists some"
        }
        Violation::NeverMatches | Violation::NoVersions => {
            "See to it that no proxy rewrites ETags, or use another store; docs/bucket.md lists some"
        }
        Violation::SeveralWinners
        | Violation::StaleRead
        | Violation::StaleListing
        | Violation::StaleDelete => {
            "Turn off caches before it, use one site of a replicated store, or another store; \
             docs/bucket.md lists some"
        }
    }
}

fn advice_on_denial(settings: &BucketSettings, denial: &Denial) -> String {
    let name = settings.url.name();
    match denial.code.as_str() {
        "NoSuchBucket" => format!("Create the bucket {name}, or check its name and --endpoint"),
        "InvalidAccessKeyId" => {
            let key = &settings.credentials.access_key;
            format!(
                "The store does not know the access key {key}: check AWS_ACCESS_KEY_ID, or AWS_PROFILE"
            )
        }
        "SignatureDoesNotMatch" => {
            "Check AWS_SECRET_ACCESS_KEY, or the secret in the file of credentials, and --region"
                .into()
        }
        "ExpiredToken" | "InvalidToken" => "Renew AWS_SESSION_TOKEN with its keys".into(),
        "RequestTimeTooSkewed" => "Set this machine's clock".into(),
        "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" => {
            format!("Give the bucket's own region with --region, which is {} now", settings.region)
        }
        _ => format!(
            "Allow these credentials to read, write, list and delete objects of {name} (s3:GetObject, \
             s3:PutObject, s3:ListBucket, s3:DeleteObject), and check --endpoint and --addressing"
        ),
    }
}

fn advice_on_doubt(settings: &BucketSettings, doubt: &Doubt) -> String {
    match doubt {
        Doubt::Connection(cause) if cause.contains("certificate") => {
            "The store's certificate must come from a public authority and name its host; \
             docs/bucket.md says what to do with another"
                .into()
        }
        Doubt::TimedOut(_) | Doubt::Connection(_) => {
            format!(
                "Check that {} can be reached from here, or give another --endpoint",
                settings.endpoint
            )
        }
        _ => "Nothing is known against the store: try again, and check that --endpoint speaks S3"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Addressing, Credentials, Latencies};

    #[test]
    fn a_report_says_what_was_found() {
        let credentials = Credentials {
            access_key: "an-id".into(),
            secret_key: "a-secret".into(),
            session_token: None,
        };
        let settings = BucketSettings {
            url: "s3://abc/p".parse().expect("a URL"),
            endpoint: "http://127.0.0.1:9000".parse().expect("an endpoint"),
            region: "us-east-1".into(),
            addressing: Addressing::Path,
            credentials,
        };
        let latencies = Latencies { put: Duration::from_micros(1260), ..Latencies::default() };
        let probed = Probed { form: ETagForm::Unquoted, has_dates: false, latencies };
        let report = report(&place(&settings), &probed);
        let first = "s3://abc/p at http://127.0.0.1:9000 (region us-east-1, name in the path)";
        assert!(report.starts_with(&format!("{first} is fit for a cluster\n")), "{report}");
        for part in ["without quotes", "not told", "put 1.3 ms"] {
            assert!(report.contains(part), "{part} is not in\n{report}");
        }
        assert!(!report.contains("a-secret"));
    }
}
