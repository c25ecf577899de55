//! `cargo xtask ceph-test`: the bucket's contract on a real store, Ceph's gateway, which this starts on
//! loopback with all its data in memory, and stops again.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::usage::UsageError;
use crate::{apt, command, repo};

const PROGRAMS: &[&str] =
    &["ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph"];
const PACKAGES: &[&str] = &["ceph-mon", "ceph-osd", "radosgw"];
/// How long the parts may take to serve.
const PATIENCE: Duration = Duration::from_secs(180);
/// Of one part.
const STARTS_MAX: u32 = 10;
const ACCESS_KEY: &str = "ceph-test";
const SECRET_KEY: &str = "ceph-test-secret";
const SHA256_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const BUCKET: &str = "wasmkeep-test";

pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(first) = arguments.first() {
        return Err(UsageError::new(format!("unexpected argument `{first}`")).into());
    }
    let is_there = |program: &&str| command::succeeds(Command::new(program).arg("--version"));
    if !PROGRAMS.iter().all(is_there) {
        apt::install(PACKAGES).context("install Ceph")?;
    }
    let folder = repo::root().join("target/ceph-test");
    let ceph = Ceph::start(&folder).with_context(|| {
        format!("start Ceph, whose logs are in {}", folder.join("log").display())
    })?;
    let (url, endpoint) =
        (format!("s3://{BUCKET}/ceph-test"), format!("http://127.0.0.1:{}", ceph.port));
    let mut check = command::cargo();
    check.args(["run", "--quiet", "--package", "wasmkeep", "--", "bucket", "check", &url]);
    check.args(["--endpoint", &endpoint]);
    check.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    command::run(&mut check)?;
    let mut tests = command::cargo();
    tests.args(["test", "--package", "wasmkeep", "--lib", "the_contract_holds_over_a_real_store"]);
    tests.args(["--", "--ignored", "--nocapture"]);
    tests.env("WASMKEEP_TEST_S3_URL", url).env("WASMKEEP_TEST_S3_ENDPOINT", endpoint);
    tests.env("WASMKEEP_TEST_S3_ACCESS_KEY", ACCESS_KEY);
    tests.env("WASMKEEP_TEST_S3_SECRET_KEY", SECRET_KEY);
    command::run(&mut tests)
}

/// One monitor, one store of objects in memory, one gateway: children of this process, which end with
/// it.
struct Ceph {
    folder: PathBuf,
    port: u16,
    parts: Vec<Part>,
}

struct Part {
    program: &'static str,
    arguments: &'static [&'static str],
    child: Child,
    starts: u32,
}

impl Ceph {
    fn start(folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).context("remove what an earlier run left")?;
        }
        for name in ["mon", "osd", "rgw", "run", "log"] {
            fs::create_dir_all(folder.join(name)).context("make its folders")?;
        }
        let [monitor, port] = free_ports()?;
        let id = random_id()?;
        fs::write(folder.join("ceph.conf"), configuration(folder, &id, monitor, port))
            .context("write its configuration")?;
        let mut ceph = Self { folder: folder.to_owned(), port, parts: Vec::new() };
        ceph.begin(&id, monitor)?;
        ceph.serve()?;
        Ok(ceph)
    }

    /// The monitor, and one store.
    fn begin(&mut self, id: &str, monitor: u16) -> Result<()> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (keyring, map) = (path("keyring"), path("monmap"));
        let create =
            ["--create-keyring", &keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"];
        self.run("ceph-authtool", &create)?;
        let admin = [
            "--gen-key",
            "-n",
            "client.admin",
            "--cap",
            "mon",
            "allow *",
            "--cap",
            "osd",
            "allow *",
        ];
        self.run("ceph-authtool", &[&[keyring.as_str()], &admin[..]].concat())?;
        let address = format!("[v1:127.0.0.1:{monitor}]");
        self.run("monmaptool", &["--create", "--fsid", id, "--addv", "a", &address, &map])?;
        self.run("ceph-mon", &["--mkfs", "-i", "a", "--monmap", &map, "--keyring", &keyring])?;
        self.spawn("ceph-mon", &["-f", "-i", "a"])?;
        let store = random_id()?;
        self.run("ceph", &["--connect-timeout", "60", "osd", "new", &store, "0"])?;
        self.run("ceph-osd", &["-i", "0", "--mkfs", "--osd-uuid", &store])?;
        self.spawn("ceph-osd", &["-f", "-i", "0"])
    }

    /// The gateway, with a user and a bucket.
    fn serve(&mut self) -> Result<()> {
        self.spawn("radosgw", &["-f", "-n", "client.rgw.a", "--no-mon-config"])?;
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            self.look_after_parts()?;
            if began.elapsed() > PATIENCE {
                bail!("its gateway does not serve within {PATIENCE:?}");
            }
            sleep(Duration::from_millis(200));
        }
        let user = ["user", "create", "--uid=test", "--display-name=test"];
        let keys = [format!("--access-key={ACCESS_KEY}"), format!("--secret-key={SECRET_KEY}")];
        self.run("radosgw-admin", &[&user[..], &[keys[0].as_str(), &keys[1]]].concat())?;
        self.make_bucket()
    }

    /// A store that asks the monitor before it has been told of the cluster is refused ("wrong fsid")
    /// and ends: it is started again.
    fn look_after_parts(&mut self) -> Result<()> {
        for at in 0..self.parts.len() {
            let part = &mut self.parts[at];
            let Some(status) = part.child.try_wait().context("look after its parts")? else {
                continue;
            };
            if part.starts == STARTS_MAX {
                bail!("{} ended {STARTS_MAX} times ({status})", part.program);
            }
            let (program, arguments) = (part.program, part.arguments);
            let child = self.start_part(program, arguments)?;
            self.parts[at].child = child;
            self.parts[at].starts += 1;
        }
        Ok(())
    }

    /// With curl, which signs: the shell makes no buckets.
    fn make_bucket(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/{BUCKET}", self.port);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--noproxy", "*"]);
        curl.args(["--request", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3"]);
        // Older ones sign without it, and the gateway refuses that.
        curl.args(["--header", &format!("x-amz-content-sha256: {SHA256_OF_NOTHING}")]);
        curl.arg("--user").arg(format!("{ACCESS_KEY}:{SECRET_KEY}")).arg(url);
        command::capture(&mut curl).context("make a bucket").map(|_| ())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("CEPH_CONF", self.folder.join("ceph.conf"));
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        command::capture(&mut self.command(program, arguments)).map(|_| ())
    }

    fn spawn(&mut self, program: &'static str, arguments: &'static [&'static str]) -> Result<()> {
        let child = self.start_part(program, arguments)?;
        self.parts.push(Part { program, arguments, child, starts: 1 });
        Ok(())
    }

    fn start_part(&self, program: &str, arguments: &[&str]) -> Result<Child> {
        let log = fs::File::create(self.folder.join("log").join(program)).context("make a log")?;
        let mut command = self.command(program, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().with_context(|| format!("start {program}"))
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        // The gateway first: it waits for the others when it ends.
        for part in self.parts.iter_mut().rev() {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
    }
}

/// Two ports that nobody has now.
fn free_ports() -> Result<[u16; 2]> {
    let listen = || TcpListener::bind("127.0.0.1:0").context("find a free port");
    let listeners = [listen()?, listen()?];
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    Ok([port(&listeners[0])?, port(&listeners[1])?])
}

fn random_id() -> Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid").context("draw an id")?;
    Ok(id.trim().to_owned())
}

fn configuration(folder: &Path, id: &str, monitor: u16, port: u16) -> String {
    let folder = folder.display();
    format!(
        "[global]
fsid = {id}
mon host = [v1:127.0.0.1:{monitor}]
ms bind msgr2 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
mon data avail warn = 2
run dir = {folder}/run
admin socket = {folder}/run/$cluster-$name.asok
pid file = {folder}/run/$name.pid
log file = {folder}/log/$name.log
mon cluster log file = {folder}/log/cluster.log
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
keyring = {folder}/keyring
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name = 127.0.0.1
rgw thread pool size = 64
"
    )
}
