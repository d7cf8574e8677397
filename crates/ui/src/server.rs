//! The addresses, and what stands at them.
//!
//! Every local user can connect, so connections are bounded in number and time before anything of a request is known, and those
//! that never show the token give way to others. The work
//! of a request is bounded, too: pages and pictures are made by at most [`WORKERS`] at a time, and a request whose client has
//! left while it waited for its turn is not worked on.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, Response, StatusCode, Uri};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pagelab_views::faultfield::Window;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::Source;
use crate::fields::Fields;
use crate::guard::Guard;

/// Connections at a time. A browser opens six for a page.
const CONNECTIONS: usize = 64;
/// Time for the head of a request, also between two requests of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time of a connection: that of the slowest answer to the slowest reader.
const CONNECTION_TIME: Duration = Duration::from_mins(10);
/// Pages and pictures made at a time: each takes up to 100 MB, and a page both of two processors.
const WORKERS: usize = 2;
/// Pause where the system has no descriptor or no memory left for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on 127.0.0.1:{port}: {error}; needed a free port, or --port 0 for any")]
    Listen {
        /// The port asked for.
        port: u16,
        /// What the system said.
        error: io::Error,
    },
    /// The server broke off.
    #[error("the server: {0}")]
    Server(#[from] io::Error),
}

/// A server that listens, on the loopback address only.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    guard: Guard,
    source: Box<dyn Source>,
    fields: Fields,
    page: Mutex<Option<(String, String)>>,
    /// Turns of those that work on a request.
    turns: Arc<Semaphore>,
}

/// A recording in the list.
#[derive(Debug, Serialize)]
struct Listed {
    recording: usize,
    dir: String,
}

/// The recording asked about, by its place in the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRecording {
    recording: usize,
}

/// The picture asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    recording: usize,
    from_ns: i64,
    to_ns: i64,
    low: f64,
    high: f64,
    columns: usize,
    rows: usize,
}

impl Server {
    /// Listens on a port of the loopback address; 0 is any that is free.
    ///
    /// # Errors
    /// [`UiError::Listen`].
    pub fn listen(source: impl Source, port: u16) -> Result<Self, UiError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(address))
            .map_err(|error| UiError::Listen { port, error })?;
        let guard = Guard::new(listener.local_addr()?.port())?;
        let turns = Arc::new(Semaphore::new(WORKERS));
        let shared =
            Shared { guard, source: Box::new(source), fields: Fields::default(), page: Mutex::default(), turns };
        Ok(Self { runtime, listener, shared: Arc::new(shared) })
    }

    /// The address to open, with the token.
    pub fn url(&self) -> String {
        self.shared.guard.url()
    }

    /// Answers until the program ends.
    ///
    /// # Errors
    /// [`UiError::Server`].
    pub fn serve(self) -> Result<(), UiError> {
        let router = Router::new().fallback(answer).with_state(self.shared);
        let mut connections = VecDeque::new();
        self.runtime.block_on(async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        make_room(&mut connections);
                        connections.push_back(Connection::begin(stream, &router));
                    }
                    // Out of descriptors or memory, or a client that has gone again: none is a reason to end.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        })
    }
}

/// A connection that is answered.
struct Connection {
    task: JoinHandle<()>,
    /// A request of it had the token.
    is_admitted: Admitted,
}

/// Whether a request of the connection had the token.
#[derive(Debug, Clone, Default)]
struct Admitted(Arc<AtomicBool>);

impl Connection {
    /// Answers a connection as long as it may last. A client that breaks off, or is too slow, is no matter.
    fn begin(stream: TcpStream, router: &Router) -> Self {
        let is_admitted = Admitted::default();
        let service = TowerToHyperService::new(router.clone().layer(Extension(is_admitted.clone())));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let task = tokio::spawn(async move { drop(tokio::time::timeout(CONNECTION_TIME, connection).await) });
        Self { task, is_admitted }
    }
}

/// Leaves room for one more: the first that has never shown the token has to go, or else the first of all.
fn make_room(connections: &mut VecDeque<Connection>) {
    connections.retain(|connection| !connection.task.is_finished());
    if connections.len() < CONNECTIONS {
        return;
    }
    let is_stranger = |connection: &Connection| !connection.is_admitted.0.load(Ordering::Relaxed);
    let place = connections.iter().position(is_stranger).unwrap_or(0);
    if let Some(connection) = connections.remove(place) {
        connection.task.abort();
    }
}

/// Everything is answered here, so that nothing is reached around the guard.
async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (method, uri, headers) = (request.method().clone(), request.uri().clone(), request.headers().clone());
    let answered = match shared.guard.admit(&method, uri.path(), &headers) {
        Err((status, why)) => Err((status, why.to_owned())),
        Ok(rest) => {
            if let Some(Admitted(is_admitted)) = request.extensions().get() {
                is_admitted.store(true, Ordering::Relaxed);
            }
            work(&shared, rest.to_owned(), uri.clone()).await
        }
    };
    let (status, kind, text) = match answered {
        Ok((kind, text)) => (StatusCode::OK, kind, text),
        Err((status, why)) => (status, "text/plain; charset=utf-8", why),
    };
    response(status, kind, text)
}

/// Pages and pictures are read from files, and take a while. Whoever leaves before its turn has none: its future is dropped.
async fn work(shared: &Arc<Shared>, place: String, uri: Uri) -> Answered {
    let broken = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, why);
    let turn = shared.turns.clone().acquire_owned().await.map_err(|error| broken(error.to_string()))?;
    let shared = shared.clone();
    let worked = tokio::task::spawn_blocking(move || {
        let answered = shared.at(&place, &uri);
        drop(turn);
        answered
    });
    worked.await.unwrap_or_else(|error| Err(broken(error.to_string())))
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

type Answered = Result<(&'static str, String), (StatusCode, String)>;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

impl Shared {
    /// What stands at a place behind the token.
    fn at(&self, place: &str, uri: &Uri) -> Answered {
        match place {
            "" => self.page().map(|page| (HTML, page)),
            "api/state" => json(&self.stamp()),
            "api/recordings" => {
                let dirs = self.source.recordings();
                let list = dirs
                    .iter()
                    .enumerate()
                    .map(|(recording, dir)| Listed { recording, dir: dir.display().to_string() });
                json(&list.collect::<Vec<_>>())
            }
            "api/faults" => {
                let OfRecording { recording } = query(uri)?;
                json(&self.fields.about(&self.recording(recording)?).map_err(unreadable)?)
            }
            "api/see" => {
                let Wanted { recording, from_ns, to_ns, low, high, columns, rows } = query(uri)?;
                let window = Window { from_ns, to_ns, low, high, columns, rows };
                json(&self.fields.see(&self.recording(recording)?, &window).map_err(unreadable)?)
            }
            _ => Err((StatusCode::NOT_FOUND, "there is nothing at this address".to_owned())),
        }
    }

    fn recording(&self, place: usize) -> Result<PathBuf, (StatusCode, String)> {
        let all = self.source.recordings();
        let needed = all.len();
        all.into_iter().nth(place).ok_or_else(|| {
            (
                StatusCode::NOT_FOUND,
                format!("found recording={place}; needed a number below {needed}, see api/recordings"),
            )
        })
    }

    /// The page, made again when a recording has come or changed.
    fn page(&self) -> Result<String, (StatusCode, String)> {
        let stamp = self.stamp();
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = kept.as_ref().filter(|(of, _)| *of == stamp) {
            return Ok(page.clone());
        }
        let page = self.source.page().map_err(unreadable)?;
        *kept = Some((stamp, page.clone()));
        Ok(page)
    }

    /// Text that differs when a recording has come or its manifest has changed.
    fn stamp(&self) -> String {
        let changed = |dir: &PathBuf| {
            let when = std::fs::metadata(dir.join("manifest.json")).and_then(|meta| meta.modified()).ok()?;
            Some(when.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis())
        };
        let recordings = self.source.recordings();
        let newest = recordings.iter().filter_map(changed).max().unwrap_or(0);
        format!("{}-{newest}", recordings.len())
    }
}

fn query<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T, (StatusCode, String)> {
    Query::try_from_uri(uri).map(|Query(query)| query).map_err(|error| (StatusCode::BAD_REQUEST, error.body_text()))
}

fn json(value: &impl Serialize) -> Answered {
    let text = serde_json::to_string(value).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok((JSON, text))
}

fn unreadable(why: String) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, why)
}
