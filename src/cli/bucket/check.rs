//! `wasmkeep bucket check`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use wasmkeep_supervisors::metrics::Metrics;

use crate::bucket::{
    BucketUrl, ETagForm, ProbeError, Probed, S3Bucket, SystemRandom, explain, place, probe,
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
        Err(error @ ProbeError::Violated(_)) => {
            Err(Ended::refused(explain(&settings, &error)).into())
        }
        Err(error) => anyhow::bail!("{}", explain(&settings, &error)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Addressing, BucketSettings, Credentials, Latencies};

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
