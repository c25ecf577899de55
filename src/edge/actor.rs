//! `/actor/<class>/<name>/…`: a request becomes an event, and its answer a response.

use actix_web::http::header::HOST;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use wasmkeep_supervisors::address::{Address, Target};
use wasmkeep_supervisors::event::{
    Body, Caller, Event, Header, OpenRequest, Reason, Refusal, Reply, ReplyTo, Request,
    RequestHead, Task, Ticket, packed,
};
use wasmkeep_supervisors::headers;

use super::server::EdgeState;
use super::{body, respond, websocket};

pub const PREFIX: &str = "/actor/";

pub async fn handle(
    request: HttpRequest,
    payload: Payload,
    state: Data<EdgeState>,
    awaits_continue: bool,
) -> HttpResponse {
    let taken = match target(&request) {
        Ok(target) if websocket::is_asked_for(&request) => {
            // In a box, as all that is large and rare: each request pays for the room.
            return Box::pin(open_socket(&request, target, &state)).await;
        }
        Ok(target) => {
            body::take(&request, payload, awaits_continue).await.map(|body| (target, body))
        }
        Err(refusal) => Err(refusal),
    };
    let (target, body) = match taken {
        Ok(taken) => taken,
        Err(refusal) => {
            state.metrics.refused(refusal.reason);
            return respond::refusal(&refusal);
        }
    };
    let ticket = Ticket::default();
    // Nothing of this body is on its way while its event waits: who leaves then has sent no request.
    let _leaves = awaits_continue.then(|| Leaves(ticket.clone()));
    match deliver(&request, target, body, ticket, &state).await {
        Ok(answer) => respond::reply(answer, request.method()),
        Err(refusal) => respond::refusal(&refusal),
    }
}

async fn open_socket(request: &HttpRequest, target: Target, state: &EdgeState) -> HttpResponse {
    let address = Address { tenant: state.tenant.clone(), class: target.class, name: target.name };
    let asked = OpenRequest { path: target.path, headers: client_headers(request) };
    websocket::at_actor(request, &address, asked, state).await
}

/// Takes an event off the queue when its client is gone.
pub struct Leaves(pub Ticket);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn target(request: &HttpRequest) -> Result<Target, Refusal> {
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    Target::parse(target.strip_prefix(PREFIX).unwrap_or_default())
        .map_err(|error| Refusal::not_run(Reason::BadRequest).with_detail(error.to_string()))
}

async fn deliver(
    request: &HttpRequest,
    target: Target,
    body: Body,
    ticket: Ticket,
    state: &EdgeState,
) -> Result<Reply, Refusal> {
    let address = Address { tenant: state.tenant.clone(), class: target.class, name: target.name };
    let head = head(request, target.path);
    let (reply, answer) = ReplyTo::channel();
    let task = Task::Request(Request { head, body, caller: Caller::Outside });
    let event = Event { address, task, reply, ticket };
    state.tree.deliver(event, answer).await
}

/// The request's head, as a guest that sees it under `path` gets it.
pub fn head(request: &HttpRequest, path: String) -> RequestHead {
    RequestHead {
        method: request.method().as_str().to_owned(),
        path,
        authority: authority(request),
        headers: client_headers(request),
    }
}

fn authority(request: &HttpRequest) -> String {
    let asked = request.uri().authority().map(|authority| authority.as_str());
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
    asked.or_else(header).unwrap_or_default().to_owned()
}

/// The client's headers, less those that only the host may set.
fn client_headers(request: &HttpRequest) -> Vec<Header> {
    packed(|| {
        let all = request.headers().iter();
        let all = all.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        all.filter(|(name, _)| !headers::is_hosts(name))
    })
}
