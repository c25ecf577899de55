//! Why a bucket was not found fit, for the one who can change that.

use wasmkeep_supervisors::ports::{Denial, Doubt};

use super::probe::{ProbeError, Violation};
use super::settings::BucketSettings;

/// What went wrong with trying a bucket out, and what to do.
pub fn explain(settings: &BucketSettings, error: &ProbeError) -> String {
    let place = place(settings);
    match error {
        ProbeError::Violated(violation) => {
            let advice = advice_on_violation(*violation);
            format!("{place} is not fit for a cluster: {violation}. {advice}")
        }
        ProbeError::Denied { doing, denial } => {
            let advice = advice_on_denial(settings, denial);
            format!("{place} was not tried out: to {doing}: {denial}. {advice}")
        }
        ProbeError::Inconclusive { doing, doubt } => {
            let advice = advice_on_doubt(settings, doubt);
            format!("{place} was not tried out to the end: to {doing}: {doubt}. {advice}")
        }
    }
}

pub fn place(settings: &BucketSettings) -> String {
    let BucketSettings { url, endpoint, region, addressing, .. } = settings;
    format!("{url} at {endpoint} (region {region}, name in the {})", addressing.as_str())
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
