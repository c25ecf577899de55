use crate::websockets::{Message, OpenRequest, Socket};
use crate::{Error, Request, Response, Result};

/// An actor: one value for each instance, handling one event at a time.
///
/// The value is the actor's **memory**. It is made with [`Default`] when the first event finds the
/// actor asleep, and lost when it sleeps again, fails, moves or is deployed: keep there what can
/// be computed anew. What must last goes into [`storage`](crate::storage).
///
/// ```no_run
/// use wasmkeep_sdk::{Actor, Method, Request, Response, Result, storage};
///
/// #[derive(Default)]
/// struct Guestbook;
///
/// impl Actor for Guestbook {
///     fn init(&mut self) -> Result<()> {
///         storage::exec("CREATE TABLE IF NOT EXISTS entries (name TEXT NOT NULL)", ())?;
///         Ok(())
///     }
///
///     fn request(&mut self, mut request: Request) -> Result<Response> {
///         match request.route() {
///             (Method::Get, []) => {
///                 let names = storage::query_as::<String>("SELECT name FROM entries", ())?;
///                 Ok(Response::json(&names))
///             }
///             (Method::Post, []) => {
///                 storage::exec_durable("INSERT INTO entries VALUES (?)", (request.text()?,))?;
///                 Ok(Response::empty())
///             }
///             _ => Ok(Response::not_found()),
///         }
///     }
/// }
///
/// wasmkeep_sdk::actor!(Guestbook);
/// ```
///
/// # When a handler fails
///
/// A handler fails its event by returning an error, or by a panic (which also loses the memory).
/// The host then rolls back a transaction that is still open; what was committed before stays, and
/// outside a transaction each statement commits by itself. Statements that belong together go
/// into [`storage::transaction`](crate::storage::transaction).
pub trait Actor: Default + 'static {
    /// Runs once for a new actor, and again after each deploy, before any other handler: the place
    /// to create and migrate tables.
    ///
    /// It does **not** run when the actor wakes from sleep. While it fails, so does every event,
    /// and the next one tries it again.
    fn init(&mut self) -> Result<()> {
        Ok(())
    }

    /// Answers an HTTP request, from a client or from another actor. An error becomes a response:
    /// see [`Error`].
    fn request(&mut self, request: Request) -> Result<Response>;

    /// The alarm is due: see [`alarms`](crate::alarms).
    ///
    /// After an error it runs again, in 1 s at first and up to 5 min later, so what it does should
    /// bear being done twice.
    fn alarm(&mut self) -> Result<()> {
        Err(Error::internal("an alarm was due, but this actor has no `alarm` handler"))
    }

    /// A client asks for a WebSocket. An error refuses it; its text is the reason the client
    /// reads. Without this handler, every WebSocket is refused.
    fn socket_open(&mut self, socket: Socket, request: OpenRequest) -> Result<()> {
        let _ = (socket, request);
        Err(Error::status(404, "this actor takes no WebSockets"))
    }

    /// A message from a client.
    fn socket_message(&mut self, socket: Socket, message: Message) -> Result<()> {
        let _ = (socket, message);
        Ok(())
    }

    /// A WebSocket has ended. Its attachment is still there; nothing can be sent any more.
    ///
    /// The code is the client's, 1005 if it gave none, 1006 if the connection was lost.
    fn socket_close(&mut self, socket: Socket, code: u16, reason: String) -> Result<()> {
        let _ = (socket, code, reason);
        Ok(())
    }
}

/// Makes a type the actor of this component: exports what the host calls.
///
/// Once in a crate, whose `Cargo.toml` says `crate-type = ["cdylib"]`:
///
/// ```no_run
/// # use wasmkeep_sdk::{Actor, Request, Response, Result};
/// # #[derive(Default)]
/// # struct Guestbook;
/// # impl Actor for Guestbook {
/// #     fn request(&mut self, _: Request) -> Result<Response> { Ok(Response::empty()) }
/// # }
/// wasmkeep_sdk::actor!(Guestbook);
/// ```
#[macro_export]
macro_rules! actor {
    ($actor:ty) => {
        const _: () = {
            // A type of this crate, so that the actor's own may be another crate's.
            struct Exported;

            impl $crate::export::Instance for Exported {
                type Actor = $actor;

                fn with<R>(event: impl ::core::ops::FnOnce(&mut $actor) -> R) -> R {
                    ::std::thread_local! {
                        static MEMORY: $crate::export::Memory<$actor> =
                            const { $crate::export::Memory::new() };
                    }
                    MEMORY.with(|memory| memory.enter(event))
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::bindings::export_actor!(Exported with_types_in $crate::bindings);

            // Elsewhere, in tests on the developer's machine, nothing calls the actor. This keeps
            // the compiler from reporting all of it as unused.
            #[cfg(not(target_arch = "wasm32"))]
            #[used]
            static REACHED: fn() = $crate::export::reach::<Exported>;
        };
    };
}
