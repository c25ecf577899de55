//! Whether this node is one of a cluster: the bucket that its nodes share, what it is called there, and
//! where the others reach it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Deserialize;
use wasmkeep_supervisors::address::NodeId;

use super::{BucketArgs, ConfigError};
use crate::bucket::{BucketSettings, BucketUrl};

/// What makes a node one of a cluster. Without --bucket it is on its own.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// Run as one node of a cluster: the bucket that its nodes share, and the prefix in it
    #[arg(long, value_name = "s3://BUCKET[/PREFIX]", env = "WASMKEEP_BUCKET")]
    pub bucket: Option<BucketUrl>,
    #[command(flatten)]
    pub at: BucketArgs,
    /// This node's name in the cluster; it keeps it over restarts
    #[arg(long, value_name = "NAME", env = "WASMKEEP_NODE")]
    pub node: Option<NodeId>,
    /// Address and port that the other nodes connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", env = "WASMKEEP_CLUSTER_LISTEN")]
    pub cluster_listen: Option<SocketAddr>,
    /// How the other nodes name that address [default: --cluster-listen]
    #[arg(long, value_name = "HOST:PORT", env = "WASMKEEP_ADVERTISE")]
    pub advertise: Option<Advertised>,
}

/// The same in the settings file: `[cluster]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClusterTable {
    pub bucket: Option<String>,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub addressing: Option<String>,
    pub node: Option<String>,
    pub listen: Option<SocketAddr>,
    pub advertise: Option<String>,
}

/// `HOST:PORT`, as other nodes connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised(String);

impl FromStr for Advertised {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port: u16 = port.parse().map_err(|_| form())?;
        let name = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let is_host = match name {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(is_plain)
            }
        };
        if !is_host || port == 0 {
            return Err(form());
        }
        Ok(Self(text.to_owned()))
    }
}

/// The longest name that DNS has.
const HOST_BYTES_MAX: usize = 253;

impl fmt::Display for Advertised {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// A node's place in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    pub bucket: SharedBucket,
    pub node: NodeId,
    pub listen: SocketAddr,
    /// None: what is listened on.
    pub advertise: Option<Advertised>,
}

/// Where the nodes' bucket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedBucket {
    S3(BucketSettings),
    /// A folder of this machine, for the nodes of `wasmkeep dev`.
    Folder(PathBuf),
}

/// Of flags and the settings file, before the bucket's credentials are looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub node: NodeId,
    pub listen: SocketAddr,
    pub advertise: Option<Advertised>,
}

impl ClusterArgs {
    /// Fills in what flags and environment left open.
    pub(super) fn filled(mut self, table: ClusterTable, path: &Path) -> Result<Self, ConfigError> {
        fn fill<T: FromStr<Err: fmt::Display>>(
            given: &mut Option<T>,
            (name, filed): (&str, Option<String>),
            path: &Path,
        ) -> Result<(), ConfigError> {
            let (None, Some(text)) = (&given, filed) else { return Ok(()) };
            *given = Some(text.parse().map_err(|error| ConfigError::Wrong {
                path: path.to_owned(),
                cause: format!("[cluster] {name}: {error}"),
            })?);
            Ok(())
        }
        fill(&mut self.bucket, ("bucket", table.bucket), path)?;
        fill(&mut self.at.endpoint, ("endpoint", table.endpoint), path)?;
        fill(&mut self.at.region, ("region", table.region), path)?;
        fill(&mut self.at.addressing, ("addressing", table.addressing), path)?;
        fill(&mut self.node, ("node", table.node), path)?;
        fill(&mut self.advertise, ("advertise", table.advertise), path)?;
        self.cluster_listen = self.cluster_listen.or(table.listen);
        Ok(self)
    }

    /// The first of these flags that is given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [("bucket", self.bucket.is_some())];
        given.into_iter().chain(self.beside_bucket()).find_map(|(flag, is)| is.then_some(flag))
    }

    /// The others, and whether each is given.
    fn beside_bucket(&self) -> [(&'static str, bool); 6] {
        [
            ("endpoint", self.at.endpoint.is_some()),
            ("region", self.at.region.is_some()),
            ("addressing", self.at.addressing.is_some()),
            ("node", self.node.is_some()),
            ("cluster-listen", self.cluster_listen.is_some()),
            ("advertise", self.advertise.is_some()),
        ]
    }

    /// All of it, or nothing: half a cluster would keep its writes to itself.
    pub(super) fn checked(self) -> Result<Option<(BucketUrl, BucketArgs, Asked)>, ConfigError> {
        let lacks = |flag, lacks| Err(ConfigError::Lacks { flag, lacks });
        let Some(bucket) = self.bucket else {
            return match self.given() {
                Some(flag) => lacks(flag, "--bucket s3://BUCKET, which makes a cluster"),
                None => Ok(None),
            };
        };
        let Some(node) = self.node else {
            return lacks("bucket", "--node NAME, what this node is called in the cluster");
        };
        let Some(listen) = self.cluster_listen else {
            return lacks("bucket", "--cluster-listen ADDR:PORT, where the other nodes connect to");
        };
        if listen.ip().is_unspecified() && self.advertise.is_none() {
            return lacks(
                "cluster-listen",
                "--advertise HOST:PORT: an address that is every \
                                            address tells the other nodes nothing",
            );
        }
        Ok(Some((bucket, self.at, Asked { node, listen, advertise: self.advertise })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, args: ClusterArgs) -> Result<ClusterArgs, ConfigError> {
        let table: ClusterTable = toml::from_str(text).expect("a good table");
        args.filled(table, Path::new("w.toml"))
    }

    fn whole() -> ClusterArgs {
        ClusterArgs {
            bucket: Some("s3://abc/p".parse().expect("a URL")),
            node: Some("n1".parse().expect("a name")),
            cluster_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            ..ClusterArgs::default()
        }
    }

    #[test]
    fn without_anything_the_node_is_on_its_own() {
        assert!(matches!(ClusterArgs::default().checked(), Ok(None)));
        let (url, _, asked) = whole().checked().expect("whole").expect("a cluster");
        assert_eq!((url.name(), asked.node.as_str()), ("abc", "n1"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |args: ClusterArgs| args.checked().expect_err("half").to_string();
        assert!(error(ClusterArgs { node: None, ..whole() }).contains("--node"));
        let listen = error(ClusterArgs { cluster_listen: None, ..whole() });
        assert!(listen.contains("--cluster-listen"), "{listen}");
        let everywhere = Some(SocketAddr::from(([0, 0, 0, 0], 7000)));
        let advertise = error(ClusterArgs { cluster_listen: everywhere, ..whole() });
        assert!(advertise.contains("--advertise"), "{advertise}");
        for lonely in [
            ClusterArgs { node: whole().node, ..ClusterArgs::default() },
            ClusterArgs { cluster_listen: everywhere, ..ClusterArgs::default() },
            ClusterArgs { advertise: "a:1".parse().ok(), ..ClusterArgs::default() },
            ClusterArgs {
                at: BucketArgs { region: Some("eu".into()), ..BucketArgs::default() },
                ..ClusterArgs::default()
            },
        ] {
            assert!(error(lonely.clone()).contains("--bucket"), "{lonely:?}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_fills_in_the_rest() {
        let text = "bucket = \"s3://filed\"\nnode = \"n2\"\nlisten = \"127.0.0.1:7001\"\n\
                    endpoint = \"http://127.0.0.1:9000\"\nadvertise = \"host-2:7001\"";
        let args = ClusterArgs { node: whole().node, ..ClusterArgs::default() };
        let args = filled(text, args).expect("fits");
        assert_eq!(args.node, whole().node);
        assert_eq!(args.bucket.map(|url| url.name().to_owned()).as_deref(), Some("filed"));
        assert_eq!(args.cluster_listen.map(|listen| listen.port()), Some(7001));
        assert!(args.at.endpoint.is_some() && args.advertise.is_some());
        for (wrong, name) in [
            ("node = \"N 2\"", "node"),
            ("bucket = \"http://x\"", "bucket"),
            ("addressing = \"left\"", "addressing"),
            ("advertise = \"host\"", "advertise"),
        ] {
            let error = filled(wrong, ClusterArgs::default()).expect_err(wrong).to_string();
            assert!(error.contains("w.toml") && error.contains(name), "{error}");
        }
    }

    #[test]
    fn what_others_connect_to_is_a_host_and_a_port() {
        for good in ["a:1", "node-1.example.com:7000", "10.0.0.1:65535", "[::1]:7000"] {
            assert_eq!(good.parse::<Advertised>().expect(good).to_string(), good);
        }
        for wrong in
            ["", "a", ":1", "a:", "a:0", "a:65536", "a b:1", "[::1:1", "[x]:1", "::1:1", "a/b:1"]
        {
            assert!(wrong.parse::<Advertised>().is_err(), "{wrong}");
        }
    }
}
