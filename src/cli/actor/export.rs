//! `wasmkeep actor export`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tokio::io::AsyncReadExt;

use super::node::{ActorArg, unexpected};
use super::{Answer, NodeArgs};
use crate::admin::{Command, Line};
use crate::cli::exit::Ended;
use crate::cli::text;

const PIECE_BYTES: usize = 128 * 1024;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The actor, its name as it is
    #[arg(value_name = "CLASS/NAME")]
    actor: ActorArg,
    /// Where to write it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub async fn run(args: Args) -> Result<()> {
    let shown = args.file.display();
    if !args.force && fs::symlink_metadata(&args.file).is_ok() {
        return Err(there_already(&args.file).into());
    }
    let unfinished = Unfinished::create(&args.file)?;
    let request = args.node.actor(&args.actor);
    let mut answer = args.node.ask(Command::Export(request)).await?;
    let length = match answer.line().await? {
        Line::Bytes { length } => length,
        line => return Err(unexpected(&line)),
    };
    receive(&mut answer, length, &unfinished).await.with_context(|| format!("write {shown}"))?;
    unfinished.keep(args.force)?;
    println!("{shown}: {}", text::bytes(length));
    Ok(())
}

async fn receive(answer: &mut Answer, length: u64, to: &Unfinished) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = length;
    let mut bytes = answer.bytes(length);
    while left > 0 {
        let read = bytes.read(&mut piece).await?;
        if read == 0 {
            bail!("the answer broke off");
        }
        (&to.file).write_all(&piece[..read])?;
        left = left.saturating_sub(read as u64);
    }
    drop(bytes);
    match answer.line().await? {
        Line::End { .. } => Ok(to.file.sync_all()?),
        line => Err(unexpected(&line)),
    }
}

fn there_already(file: &Path) -> Ended {
    Ended::refused(format!("{} is there already: --force replaces it", file.display()))
}

/// A file beside its target, gone unless it is kept.
struct Unfinished {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Unfinished {
    fn create(target: &Path) -> Result<Self> {
        let Some(name) = target.file_name() else {
            bail!("{} is no name of a file", target.display());
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let path = target.with_file_name(hidden);
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("create {}", path.display()))?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Gives the file its name, durably.
    fn keep(self, replace: bool) -> Result<()> {
        let named = if replace {
            fs::rename(&self.path, &self.target)
        } else {
            name_without_replacing(&self.path, &self.target)
        };
        match named {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(there_already(&self.target).into());
            }
            named => named.with_context(|| format!("name {}", self.target.display()))?,
        }
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .with_context(|| format!("sync {}", folder.display()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Once it is named, there is none.
        let _ = fs::remove_file(&self.path);
    }
}

fn name_without_replacing(from: &Path, to: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot do both at once.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        named => Ok(named?),
    }
}
