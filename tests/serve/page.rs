//! What a browser and a monitor see, and what slow ones of them cannot do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::centre::Centre;

/// A service that answers; killed when it is dropped.
pub struct Watched {
    pub process: Child,
    pub address: String,
    log: Arc<Mutex<String>>,
}

impl Watched {
    pub fn start(centre: &Centre, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let http = ["--set", "serve.http={ enabled = true, address = '127.0.0.1:0' }"];
        let mut command = centre.command(&[&["serve"], arguments, &http].concat());
        change(&mut command);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address =
            lines.find_map(|line| line.strip_prefix("status: http://").map(str::to_string)).unwrap();
        let address = address.trim_end_matches('/').to_string();
        let log = Arc::new(Mutex::new(String::new()));
        let written = log.clone();
        // Somebody has to read on, or the service would wait.
        std::thread::spawn(move || lines.for_each(|line| *written.lock().unwrap() += &format!("{line}\n")));
        Self { process, address, log }
    }

    /// Status and text of an answer, head and all.
    pub fn ask(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let address = &self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (text.split(' ').nth(1).unwrap_or("0").parse().unwrap(), text)
    }

    pub fn published(&self) -> usize {
        let text = self.ask("/metrics").1;
        let line = "wxsim_cycles_total{model=\"waves\",outcome=\"published\"} ";
        text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0)
    }

    /// Waits until so many cycles are published, and for the page to show it.
    #[track_caller]
    pub fn wait_for(&self, published: usize) {
        let begun = Instant::now();
        while self.published() < published {
            assert!(begun.elapsed() < Duration::from_secs(300), "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_page_shows_what_is_served_and_a_monitor_is_told() {
    let centre = Centre::new("warm", "levels = { latency_p99 = '1h', error_rate = 0.0 }");
    (10..13).for_each(|day| centre.bring_day("inbox", day));
    std::fs::write(centre.folder().join("inbox/text.nc"), "not a file of fields").unwrap();
    let service = Watched::start(&centre, &["serve.toml"], |_| {});
    service.wait_for(2);
    let metrics = service.ask("/metrics").1;
    assert!(metrics.contains("wxsim_latency_seconds_count{model=\"waves\"} 2"), "{metrics}");
    assert!(metrics.contains("wxsim_drift{model=\"waves\",quantity=\"msl\"}"), "{metrics}");
    assert_eq!((service.ask("/healthz").0, service.ask("/readyz").0), (200, 200));
    std::thread::sleep(Duration::from_millis(1500));
    let (status, page) = service.ask("/");
    assert!(status == 200 && page.contains("2001-01-13T00:00Z") && page.contains("day012.nc"), "{page}");
    assert!(page.contains("<h1>All is well</h1>") && page.contains("text.nc"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    // Nothing of where things lie, and nothing but maps of models.
    assert!(!page.contains(&*centre.folder().to_string_lossy()) && !page.contains("inbox/"), "{page}");
    let drawn = || {
        let begun = Instant::now();
        let (status, picture) = service.ask("/map/waves.png");
        assert!(status == 200 && picture.contains("content-type: image/png"), "{picture}");
        begun.elapsed()
    };
    let (first, second) = (drawn(), drawn());
    assert!(second < first / 2, "a map is drawn once: {first:?}, {second:?}");
    for path in
        ["/map/other.png", "/map/..%2f..%2fstate%2fledger.sqlite", "/map/waves", "/state/ledger.sqlite"]
    {
        assert_eq!(service.ask(path).0, 404, "{path}");
    }
}

#[test]
fn slow_readers_hold_up_nobody_and_do_not_stay() {
    let centre = Centre::new("warm", "");
    (10..12).for_each(|day| centre.bring_day("inbox", day));
    let service = Watched::start(&centre, &["serve.toml"], |_| {});
    service.wait_for(1);
    // More of them than there are seats: some never ask, some ask and do not read.
    let connect = |number: usize| {
        let mut stream = TcpStream::connect(&service.address).unwrap();
        match number % 3 {
            0 => {}
            1 => write!(stream, "GET / HTTP/1.1\r\nHost").unwrap(),
            _ => write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap(),
        }
        stream
    };
    let slow: Vec<TcpStream> = (0..90).map(connect).collect();
    let begun = Instant::now();
    centre.bring_day("inbox", 12);
    let cycles = || centre.cycles("serve.toml").iter().filter(|cycle| cycle["state"] == "published").count();
    while cycles() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", service.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Others get in as soon as the first have had their five seconds, twice at the most.
    assert_eq!(service.ask("/healthz").0, 200);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = Vec::new();
        // Whatever was said, the connection ends; one that is cut may be reset.
        let ended = stream.read_to_end(&mut rest);
        let waits = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!waits, "it stays");
    }
}
