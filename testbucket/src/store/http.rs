//! What stands before the operations: faults, and the questions of tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use s3s::service::S3Service;
use s3s::{Body, HttpError, HttpRequest, HttpResponse};
use tokio::time::{Sleep, sleep};

use super::faults::Faults;
use super::objects::Objects;
use crate::{Operation, What};

/// How many keys a page may have; travels with a request.
#[derive(Clone, Copy)]
pub struct Short(pub u16);

#[derive(Clone)]
pub struct Front(Arc<Shared>);

struct Shared {
    s3: S3Service,
    objects: Arc<Objects>,
    faults: Faults,
}

type Answer = Result<HttpResponse, HttpError>;

impl Front {
    pub fn new(s3: S3Service, objects: Arc<Objects>, faults: Faults) -> Self {
        Self(Arc::new(Shared { s3, objects, faults }))
    }

    async fn answer(self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        if let Some(about) = path.strip_prefix("/_control/") {
            return self.control(about, request).await;
        }
        let (operation, key) = operation(&request);
        let fault = self.0.faults.next(operation, &key);
        let mut request = request.map(Body::from);
        match fault {
            None => self.carry_out(request).await,
            Some(What::LostRequest) => Err(lost()),
            Some(What::LostAnswer) => {
                let _ = self.carry_out(whole(request).await?).await;
                Err(lost())
            }
            Some(What::Late(ms)) => {
                let request = whole(request).await?;
                tokio::spawn(async move {
                    sleep(Duration::from_millis(ms)).await;
                    let _ = self.carry_out(request).await;
                });
                Err(lost())
            }
            Some(What::Silent(ms)) => {
                let answer = self.carry_out(whole(request).await?).await;
                sleep(Duration::from_millis(ms)).await;
                answer
            }
            Some(What::Status(status)) => {
                whole(request).await?;
                Ok(refusal(status))
            }
            Some(What::StatusAfterAll(status)) => {
                let _ = self.carry_out(whole(request).await?).await;
                Ok(refusal(status))
            }
            Some(What::Short(keys)) => {
                request.extensions_mut().insert(Short(keys));
                self.carry_out(request).await
            }
            Some(What::SlowBody(ms)) => {
                let answer = self.carry_out(request).await?;
                Ok(answer.map(|body| Body::http_body_unsync(Slow::new(body, ms))))
            }
            Some(What::Body(text)) => {
                whole(request).await?;
                Ok(Response::new(Body::from(text)))
            }
        }
    }

    async fn carry_out(&self, request: HttpRequest) -> Answer {
        self.0.s3.call(request).await
    }

    async fn control(&self, about: &str, request: Request<Incoming>) -> Answer {
        let Shared { objects, faults, .. } = &*self.0;
        let json = match (request.method(), about) {
            (&Method::GET, "keys") => serde_json::to_vec(&objects.keys()),
            (&Method::GET, "counts") => serde_json::to_vec(&faults.counts()),
            (&Method::DELETE, "faults") => {
                faults.clear();
                Ok(Vec::new())
            }
            (&Method::POST, "faults") => {
                let body = request.into_body().collect().await;
                let body = body.map_err(|error| HttpError::new(Box::new(error)))?.to_bytes();
                serde_json::from_slice(&body).map(|fault| {
                    faults.add(fault);
                    Vec::new()
                })
            }
            _ => return Ok(refusal(404)),
        };
        json.map(|json| Response::new(Body::from(json)))
            .map_err(|error| HttpError::new(Box::new(error)))
    }
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = HttpResponse;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

/// What is asked for, and of which key or prefix.
fn operation(request: &Request<Incoming>) -> (Operation, String) {
    let path = request.uri().path().trim_start_matches('/');
    let key = path.split_once('/').map_or("", |(_, key)| key);
    match *request.method() {
        Method::PUT => (Operation::Put, key.to_owned()),
        Method::DELETE => (Operation::Delete, key.to_owned()),
        _ if key.is_empty() => {
            let query = request.uri().query().unwrap_or_default();
            let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix="));
            (Operation::List, prefix.unwrap_or_default().replace("%2F", "/"))
        }
        _ => (Operation::Get, key.to_owned()),
    }
}

/// Reads the body to its end: what is answered without that would meet a client that still sends.
async fn whole(request: HttpRequest) -> Result<HttpRequest, HttpError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(HttpError::new)?.to_bytes();
    Ok(HttpRequest::from_parts(head, Body::from(body)))
}

/// hyper ends the connection.
fn lost() -> HttpError {
    HttpError::new("a fault".into())
}

fn refusal(status: u16) -> HttpResponse {
    let code = match status {
        403 => "AccessDenied",
        404 => "NoSuchKey",
        409 => "ConditionalRequestConflict",
        412 => "PreconditionFailed",
        429 => "TooManyRequests",
        503 => "SlowDown",
        _ => "InternalError",
    };
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Error><Code>{code}</Code><Message>a fault</Message></Error>"
    );
    let mut response = Response::new(Body::from(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// A body that comes late.
struct Slow {
    body: Body,
    until: Option<Pin<Box<Sleep>>>,
}

impl Slow {
    fn new(body: Body, ms: u64) -> Self {
        Self { body, until: Some(Box::pin(sleep(Duration::from_millis(ms)))) }
    }
}

impl http_body::Body for Slow {
    type Data = Bytes;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(until) = &mut self.until {
            if until.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.until = None;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}
