//! Ends what rests on a term of the node's lease when that term ends.

use std::sync::Arc;

use ractor::{Actor as Process, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::actor::Residents;
use crate::actor::mailbox::ActorMessage;
use crate::lease::{Session, Validity};
use crate::socket::Sockets;

pub struct LapsesParts {
    pub validity: Arc<Validity>,
    pub residents: Arc<Residents>,
    pub sockets: Arc<Sockets>,
}

pub struct LapsesProcess(pub Arc<LapsesParts>);

/// The present term is another one, or there is none.
pub struct TermChanged(Option<Session>);

pub struct State {
    term: Option<Session>,
    watches: JoinHandle<()>,
}

impl Process for LapsesProcess {
    type Msg = TermChanged;
    type State = State;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<TermChanged>,
        (): (),
    ) -> Result<State, ActorProcessingErr> {
        let mut present = self.0.validity.watch();
        let term = *present.borrow_and_update();
        let watches = tokio::spawn(async move {
            while present.changed().await.is_ok() {
                let now = *present.borrow_and_update();
                if myself.send_message(TermChanged(now)).is_err() {
                    return;
                }
            }
        });
        Ok(State { term, watches })
    }

    async fn handle(
        &self,
        _: ActorRef<TermChanged>,
        TermChanged(now): TermChanged,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let before = std::mem::replace(&mut state.term, now);
        if before.is_some() && before != now {
            self.end_holds();
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<TermChanged>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.watches.abort();
        Ok(())
    }
}

impl LapsesProcess {
    /// The actors' own processes find their holds ended too; this reaches those nobody asks anything.
    fn end_holds(&self) {
        self.0.sockets.close_all("this node may not serve the actor any more");
        for mailbox in self.0.residents.all() {
            let _ = mailbox.process.send_message(ActorMessage::Lapsed);
        }
    }
}
