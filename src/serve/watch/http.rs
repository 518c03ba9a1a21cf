//! What a browser and a monitor can ask for: `/` (with `/style.css` and `/icon.svg`), `/map/MODEL.png`, `/metrics`, `/healthz`,
//! `/readyz`. Nothing else, and nothing from the disk but maps of published forecasts.
//!
//! Whoever asks slowly, reads slowly or says nothing holds up nobody: connections are counted, each has its time, and the
//! loop is never asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

use super::picture::Maps;
use super::{Board, page};
use crate::error::{Context, Error, Result, chain};

/// Connections at the same time; further ones wait for their turn.
const SEATS: usize = 64;
/// The longest that somebody may take to say what is wanted.
const ASKING: Duration = Duration::from_secs(5);
/// The longest that a connection may last, question, answer and all.
const LONGEST: Duration = Duration::from_secs(30);
/// Before somebody is let in again where that did not work: there may be no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// The page needs no more than its own style and maps.
const POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'self'; frame-ancestors 'none'";

type Shared = Arc<Mutex<Board>>;

/// What every answer may need.
#[derive(Clone)]
struct Desk {
    board: Shared,
    maps: Arc<Maps>,
}

/// Answers at an address, from a thread of its own, as long as the process lives. Gives the address, whose port may have
/// been left open.
pub fn answer(address: SocketAddr, board: Shared) -> Result<SocketAddr> {
    let cannot = || format!("serve.http.address: cannot listen at {address}");
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        Error::input(cannot()).caused_by(error).hint("another service may: choose another port")
    })?;
    listener.set_nonblocking(true).context(cannot)?;
    let bound = listener.local_addr().context(cannot)?;
    // One thread answers, and another draws one map at a time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .context(cannot)?;
    let routes = Router::new()
        .route("/", get(status))
        .route("/style.css", get(async || ([(header::CONTENT_TYPE, "text/css")], page::STYLE)))
        .route("/icon.svg", get(icon))
        .route("/map/{name}", get(map))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .with_state(Desk { board, maps: Arc::default() });
    let serve = move || {
        if let Err(error) = runtime.block_on(accept(listener, routes)) {
            eprintln!("error: {bound} is not answered any longer: {error}");
        }
    };
    std::thread::Builder::new()
        .name("http".into())
        .spawn(serve)
        .context(|| "cannot start a thread".into())?;
    Ok(bound)
}

/// Lets in as many as there are seats.
async fn accept(listener: std::net::TcpListener, routes: Router) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let seats = Arc::new(Semaphore::new(SEATS));
    loop {
        let seat = seats.clone().acquire_owned().await.map_err(std::io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let answer = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(ASKING)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes.clone()));
        tokio::spawn(async move {
            // One who leaves, or is sent away, in the middle is no error of this service.
            let _ = tokio::time::timeout(LONGEST, answer).await;
            drop(seat);
        });
    }
}

fn look<R>(board: &Shared, at: impl FnOnce(&Board) -> R) -> R {
    at(&board.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn status(State(desk): State<Desk>) -> Response {
    let mut response = Html(look(&desk.board, page::page)).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

async fn icon(State(desk): State<Desk>) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], look(&desk.board, page::icon)).into_response()
}

/// A map is drawn when somebody looks; the name is only ever looked up among the models.
async fn map(State(desk): State<Desk>, Path(name): Path<String>) -> Response {
    let newest = look(&desk.board, |board| {
        let model = name.strip_suffix(".png")?;
        let cycle = board.models.get(model)?.newest.as_ref()?;
        Some((model.to_owned(), cycle.digest.clone()?, board.out.join(cycle.file.as_ref()?)))
    });
    let Some((model, digest, path)) = newest else {
        return (StatusCode::NOT_FOUND, "there is no such map").into_response();
    };
    let maps = desk.maps.clone();
    let drawn = tokio::task::spawn_blocking(move || maps.of_forecast(&model, &digest, &path)).await;
    match drawn {
        Ok(Ok(png)) => ([(header::CONTENT_TYPE, "image/png")], png).into_response(),
        Ok(Err(error)) => {
            // The reader gets no path.
            eprintln!("warning: {}", chain(&error));
            (StatusCode::SERVICE_UNAVAILABLE, "the forecast cannot be drawn").into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the forecast cannot be drawn").into_response(),
    }
}

async fn metrics(State(desk): State<Desk>) -> Response {
    match look(&desk.board, |board| board.metrics.text()) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Whether the loop turns.
async fn health(State(desk): State<Desk>) -> Response {
    match look(&desk.board, Board::stands_still) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "the loop stands still").into_response(),
        false => "ok".into_response(),
    }
}

/// Whether it can do what it is there for.
async fn readiness(State(desk): State<Desk>) -> Response {
    match look(&desk.board, |board| (board.stands_still(), board.trouble.is_some())) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "the loop stands still").into_response(),
        (_, true) => {
            (StatusCode::SERVICE_UNAVAILABLE, "the service is in trouble: see its log").into_response()
        }
        _ => "ready".into_response(),
    }
}
