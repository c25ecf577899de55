//! Finds whom to ask: the node that has the data directory, or the directory itself.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use wasmkeep_supervisors::address::{ActorName, App, Class, Tenant};

use crate::admin::{
    self, ActorRequest, Ask, ClientError, Command, FailureKind, Line, Session, Which,
};
use crate::cli::exit::{Ended, Exit};
use crate::config;
use crate::serve::{self, OfflineError};

/// A node that starts or stops, or another command, has the data directory and does not answer: so
/// long that is waited for.
const WAIT: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Which node, and whose actors.
#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    /// The server's data directory [default: data]
    #[arg(long, value_name = "DIR", env = "WASMKEEP_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The server's settings file [default: wasmkeep.toml, when there is one]
    #[arg(long, value_name = "FILE", env = "WASMKEEP_CONFIG")]
    pub config: Option<PathBuf>,
    /// Whose actors
    #[arg(long, default_value = "default")]
    pub tenant: Tenant,
    /// Whose actors
    #[arg(long, default_value = "default")]
    pub app: App,
}

/// `CLASS/NAME`, the name as it is.
#[derive(Debug, Clone)]
pub struct ActorArg {
    class: Class,
    name: ActorName,
}

impl FromStr for ActorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, name) = text.split_once('/').ok_or("an actor is given as CLASS/NAME")?;
        let class = Class::parse(class).map_err(|error| error.to_string())?;
        let name = ActorName::parse(name).map_err(|error| error.to_string())?;
        Ok(Self { class, name })
    }
}

impl NodeArgs {
    pub fn which(&self) -> Which {
        Which { tenant: self.tenant.to_string(), app: self.app.to_string() }
    }

    pub fn actor(&self, actor: &ActorArg) -> ActorRequest {
        let (class, name) = (actor.class.to_string(), actor.name.to_string());
        ActorRequest { which: self.which(), class, name }
    }

    /// The one that was named, or that `serve` uses here; else that of `dev`, if there is one.
    pub fn directory(&self) -> Result<PathBuf> {
        let directory = config::data_dir(self.data_dir.clone(), self.config.clone())?;
        let of_dev = Path::new(config::DEV_DATA_DIR);
        if self.data_dir.is_none() && !directory.exists() && of_dev.exists() {
            return Ok(of_dev.to_owned());
        }
        Ok(directory)
    }

    pub async fn ask(&self, command: Command) -> Result<Answer> {
        let asked = find(&self.directory()?).await?;
        Ok(Answer(asked.ask(command).await.map_err(ended)?))
    }
}

/// Opens the data directory, or connects to who has it.
async fn find(directory: &Path) -> Result<Ask> {
    let until = Instant::now() + WAIT;
    loop {
        let in_use = match serve::offline(directory) {
            Ok(operator) => return Ok(Ask::Directory(Arc::new(operator))),
            Err(error @ OfflineError::InUse(_)) => error,
            // A running node answers its administrator too, whose own files it could not use.
            Err(error) => match admin::connect(directory).await {
                Ok(stream) => return Ok(Ask::Node(stream)),
                Err(_) => return Err(error.into()),
            },
        };
        let connected = admin::connect(directory).await;
        let error = match connected {
            Ok(stream) => return Ok(Ask::Node(stream)),
            Err(error) => error,
        };
        if Instant::now() >= until {
            return Err(not_answering(&in_use, &error).into());
        }
        sleep(BETWEEN_TRIES).await;
    }
}

fn not_answering(in_use: &OfflineError, error: &io::Error) -> Ended {
    let message = format!(
        "{in_use}. Its socket admin.sock does not answer ({error}): it may be starting or \
         stopping; try again"
    );
    Ended::new(Exit::Failed, message)
}

/// An answer as it comes.
pub struct Answer(Session);

impl Answer {
    /// The next line of the answer.
    pub async fn line(&mut self) -> Result<Line> {
        Ok(self.0.line().await.map_err(ended)?)
    }

    pub fn bytes(&mut self, length: u64) -> impl tokio::io::AsyncRead + Unpin + '_ {
        self.0.bytes(length)
    }
}

/// The exit code for what went wrong at the other end.
fn ended(error: ClientError) -> Ended {
    let exit = match &error {
        ClientError::Broken(_) => Exit::Failed,
        ClientError::Failed(failure) => match failure.kind {
            FailureKind::BadRequest | FailureKind::Failed => Exit::Failed,
            FailureKind::NoSuchActor | FailureKind::Refused => Exit::Refused,
        },
    };
    Ended::new(exit, error.to_string())
}

pub fn unexpected(line: &Line) -> anyhow::Error {
    anyhow::anyhow!("an unexpected line in the answer: {line:?}")
}
