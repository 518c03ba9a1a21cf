//! What a browser and a monitor can ask for: `/` (with `/style.css`), `/map/MODEL.png`, `/metrics`, `/healthz`, `/readyz`. Nothing else, and
//! nothing from the disk but maps of published forecasts.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use super::{Board, page, picture};
use crate::error::{Context, Error, Result, chain};

/// A loop that has not turned for so long stands still.
const STILL: Duration = Duration::from_secs(60);
/// The page needs no more than its own style and maps.
const POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'self'; frame-ancestors 'none'";

type Shared = Arc<Mutex<Board>>;

/// Answers at an address, from a thread of its own, as long as the process lives. Gives the address, whose port may have
/// been left open.
pub fn answer(address: SocketAddr, board: Shared) -> Result<SocketAddr> {
    let cannot = || format!("serve.http.address: cannot listen at {address}");
    let listener = std::net::TcpListener::bind(address).map_err(|error| {
        Error::input(cannot()).caused_by(error).hint("another service may: choose another port")
    })?;
    listener.set_nonblocking(true).context(cannot)?;
    let bound = listener.local_addr().context(cannot)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().context(cannot)?;
    let routes = Router::new()
        .route("/", get(status))
        .route("/style.css", get(async || ([(header::CONTENT_TYPE, "text/css")], page::STYLE)))
        .route("/map/{name}", get(map))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .with_state(board);
    let serve = move || {
        let serve = async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, routes).await
        };
        if let Err(error) = runtime.block_on(serve) {
            eprintln!("error: {bound} is not answered any longer: {error}");
        }
    };
    std::thread::Builder::new()
        .name("http".into())
        .spawn(serve)
        .context(|| "cannot start a thread".into())?;
    Ok(bound)
}

fn look<R>(board: &Shared, at: impl FnOnce(&Board) -> R) -> R {
    at(&board.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn status(State(board): State<Shared>) -> Response {
    let mut response = Html(look(&board, page::page)).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// A map is drawn when somebody looks; the name is only ever looked up among the models.
async fn map(State(board): State<Shared>, Path(name): Path<String>) -> Response {
    let newest = look(&board, |board| {
        let model = board.models.get(name.strip_suffix(".png")?)?;
        let file = model.newest.as_ref()?.file.as_ref()?;
        Some(board.out.join(file))
    });
    let Some(path) = newest else { return (StatusCode::NOT_FOUND, "there is no such map").into_response() };
    let drawn = tokio::task::spawn_blocking(move || picture::of_forecast(&path)).await;
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

async fn metrics(State(board): State<Shared>) -> Response {
    match look(&board, |board| board.metrics.text()) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Whether the loop turns.
async fn health(State(board): State<Shared>) -> Response {
    match look(&board, |board| board.turned.elapsed()) {
        still if still > STILL => (StatusCode::SERVICE_UNAVAILABLE, "the loop stands still").into_response(),
        _ => "ok".into_response(),
    }
}

/// Whether it can do what it is there for.
async fn readiness(State(board): State<Shared>) -> Response {
    match look(&board, |board| (board.turned.elapsed() > STILL, board.trouble.is_some())) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "the loop stands still").into_response(),
        (_, true) => {
            (StatusCode::SERVICE_UNAVAILABLE, "the service is in trouble: see its log").into_response()
        }
        _ => "ready".into_response(),
    }
}
