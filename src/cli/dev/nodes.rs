//! The nodes that a project runs on: one, or several with a bucket in a folder beside the data.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use wasmkeep_supervisors::address::NodeId;

use crate::config::{ClockKind, ClusterArgs, ClusterSettings, ServeConfig, SharedBucket};

/// What becomes of flags that make another cluster.
pub fn check_flags(nodes: u8, cluster: &ClusterArgs) -> Result<()> {
    match cluster.given() {
        Some(flag) if nodes > 1 => bail!(
            "--nodes makes a cluster of its own on this machine: leave out --{flag}, and \
             WASMKEEP_{} of the environment",
            flag.to_uppercase().replace('-', "_")
        ),
        _ => Ok(()),
    }
}

/// One for each node. A project that was on several stays in their bucket, also with one: the files of
/// one node are not all of its data.
pub fn configs(config: ServeConfig, nodes: u8) -> Result<Vec<ServeConfig>> {
    let bucket = beside(&config.data_dir, "bucket");
    if nodes == 1 && !bucket.exists() {
        return Ok(vec![config]);
    }
    if config.cluster.is_some() {
        bail!(
            "the data of this project is in {}, where --nodes put it: leave out --bucket, or give \
             another --data-dir",
            bucket.display()
        );
    }
    if nodes > 1 && config.clock == ClockKind::Manual {
        bail!("--clock manual moves the clock of one node: leave it out, or --nodes");
    }
    (1..=nodes).map(|number| node(&config, number, &bucket)).collect()
}

fn node(config: &ServeConfig, number: u8, bucket: &Path) -> Result<ServeConfig> {
    let name = format!("n{number}");
    let cluster = ClusterSettings {
        bucket: SharedBucket::Folder(bucket.to_owned()),
        node: name.parse::<NodeId>()?,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        advertise: None,
    };
    let config = ServeConfig { cluster: Some(cluster), ..config.clone() };
    if number == 1 {
        return Ok(config);
    }
    Ok(ServeConfig {
        data_dir: beside(&config.data_dir, &name),
        // Each component is compiled once.
        compiled: Some(config.data_dir.join("components")),
        console: None,
        // The first node has said so.
        exposed_files: Vec::new(),
        ..config
    })
}

/// A folder beside the data of the first node: `data-n2`.
fn beside(data_dir: &Path, what: &str) -> PathBuf {
    let mut name = data_dir.file_name().unwrap_or("data".as_ref()).to_owned();
    name.push(format!("-{what}"));
    data_dir.with_file_name(name)
}

/// The bucket of the nodes, if they have one.
pub fn bucket(config: &ServeConfig) -> Option<&Path> {
    match &config.cluster.as_ref()?.bucket {
        SharedBucket::Folder(path) => Some(path),
        SharedBucket::S3(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, ActorArg, ServeArgs};
    use wasmkeep_supervisors::address::Class;

    fn config(folder: &Path) -> ServeConfig {
        let class = Class::parse("a").expect("a class");
        let actors = vec![ActorArg { class, file: "a.wasm".into() }];
        let mut args = ServeArgs { actors, ..ServeArgs::default() };
        args.common.data_dir = Some(folder.join("data"));
        config::resolve(args).expect("resolves")
    }

    #[test]
    fn nodes_have_data_of_their_own_and_one_bucket() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = configs(config(folder.path()), 3).expect("three nodes");
        let data: Vec<&Path> = all.iter().map(|node| node.data_dir.as_path()).collect();
        let expected = ["data", "data-n2", "data-n3"].map(|name| folder.path().join(name));
        assert_eq!(data, expected.each_ref().map(PathBuf::as_path));
        let expected = folder.path().join("data-bucket");
        assert!(all.iter().all(|node| bucket(node) == Some(&expected)));
    }

    #[test]
    fn a_project_leaves_its_bucket_for_no_other_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let one = || configs(config(folder.path()), 1).expect("one node");
        assert_eq!(one()[0].cluster, None);
        std::fs::create_dir(folder.path().join("data-bucket")).expect("a bucket");
        assert_eq!(one().len(), 1);
        assert!(one()[0].cluster.is_some());
        let error = configs(one().remove(0), 1).expect_err("another bucket").to_string();
        assert!(error.contains("data-bucket") && error.contains("--data-dir"), "{error}");
    }

    #[test]
    fn flags_that_do_not_go_with_several_nodes_are_named() {
        let args = ClusterArgs { bucket: "s3://abc".parse().ok(), ..ClusterArgs::default() };
        let error = check_flags(2, &args).expect_err("a bucket").to_string();
        assert!(error.contains("--bucket") && error.contains("WASMKEEP_BUCKET"), "{error}");
        assert!(check_flags(1, &args).is_ok() && check_flags(2, &ClusterArgs::default()).is_ok());
        let folder = tempfile::tempdir().expect("a folder");
        let manual = ServeConfig { clock: ClockKind::Manual, ..config(folder.path()) };
        assert!(configs(manual.clone(), 1).is_ok());
        assert!(configs(manual, 2).is_err_and(|error| error.to_string().contains("--clock")));
    }
}
