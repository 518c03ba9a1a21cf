//! The status page in a real browser without a screen, driven through ChromeDriver (W3C WebDriver, 2018).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::centre::Centre;
use crate::page::Watched;

/// Chromium. Its absence is a failure where WXSIM_REQUIRE_BROWSER says that it must be there.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("WXSIM_BROWSER").map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from);
    if path.is_file() && driver(&path).is_file() {
        return Some(path);
    }
    let sentence = format!("{} and the chromedriver beside it are absent", path.display());
    assert!(std::env::var_os("WXSIM_REQUIRE_BROWSER").is_none(), "{sentence}");
    println!("SKIPPED: {sentence}");
    None
}

fn driver(browser: &Path) -> PathBuf {
    browser.with_file_name("chromedriver")
}

/// Not its business here: updates, accounts, anything but the page.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// A browser with one window.
struct Window {
    driver: Child,
    /// Of the session.
    address: String,
}

impl Window {
    fn open(browser: &Path, profile: &Path, width: usize, height: usize) -> Self {
        let mut driver = Command::new(driver(browser))
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines
            .find_map(|line| {
                Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_string())
            })
            .unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let mut window = Self { driver, address: format!("http://127.0.0.1:{port}/session") };
        let profile = format!("--user-data-dir={}", profile.display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([profile.as_str()]).collect();
        let screen = json!({ "width": width, "height": height, "pixelRatio": 2.0, "mobile": width < 600 });
        let options =
            json!({ "binary": browser, "args": arguments, "mobileEmulation": { "deviceMetrics": screen } });
        let logs = json!({ "browser": "ALL", "performance": "ALL" });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": logs });
        let session = window.post("", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        window.address += &format!("/{}", session["sessionId"].as_str().unwrap());
        window
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(120)))
            .http_status_as_error(false)
            .build()
            .into();
        let mut response = agent.post(format!("{}{path}", self.address)).send(body.to_string()).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        assert!(response.status() == 200, "{path}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()["value"].take()
    }

    /// What a script says of the page.
    fn ask(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": format!("return {script}"), "args": [] }))
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.post("/se/log", &json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// Every address that was asked for.
    fn requests(&self) -> Vec<String> {
        let message =
            |entry: &Value| -> Value { serde_json::from_str(entry["message"].as_str().unwrap()).unwrap() };
        let sent = |entry: &Value| {
            let message = message(entry)["message"].take();
            (message["method"] == "Network.requestWillBeSent")
                .then(|| message["params"]["request"]["url"].as_str().unwrap().to_string())
        };
        self.log("performance").iter().filter_map(sent).collect()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        // It ends the browser, which would outlive its driver.
        let _ = agent.delete(&self.address).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[test]
fn the_page_shows_at_a_glance_on_a_desk_and_on_a_phone_that_all_is_well() {
    let Some(browser) = browser() else { return };
    let centre = Centre::new("warm", "");
    (10..18).for_each(|day| centre.bring_day("inbox", day));
    let long = format!("{}.nc", "a-file-with-a-long-name-that-no-phone-can-show-in-one-line".repeat(2));
    std::fs::write(centre.folder().join("inbox").join(long), "not a file of fields").unwrap();
    let service = Watched::start(&centre, &["serve.toml"], |_| {});
    service.wait_for(7);
    std::thread::sleep(Duration::from_millis(1500));
    for (number, (width, height)) in [(1280, 800), (390, 844)].into_iter().enumerate() {
        let profile = centre.folder().join(format!("browser-{number}"));
        let window = Window::open(&browser, &profile, width, height);
        let home = format!("http://{}/", service.address);
        window.post("/url", &json!({ "url": home }));
        let begun = Instant::now();
        while window.ask("document.readyState") != "complete" && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(window.ask("document.title"), "All is well - wxsim serve");
        assert_eq!(window.ask("document.querySelectorAll('#cycles tbody tr.cycle').length"), 7);
        assert_eq!(window.ask("document.querySelectorAll('#files tbody tr').length"), 9);
        // Maps are there and have a size; styles have come, too.
        let images = window.ask("[...document.images].map(i => i.complete ? i.naturalWidth : 0)");
        assert!(images.as_array().unwrap().iter().all(|width| width.as_u64() > Some(300)), "{images}");
        assert_eq!(images.as_array().unwrap().len(), 1);
        let colour = window.ask("getComputedStyle(document.querySelector('header')).backgroundColor");
        assert_eq!(colour, "rgb(24, 121, 78)", "green");
        // What matters is seen without scrolling, nothing sticks out sideways, and no letter is tiny.
        let bottom = |what: &str| {
            let script = format!("document.querySelector('{what}').getBoundingClientRect().bottom");
            window.ask(&script).as_f64().unwrap()
        };
        assert!(bottom("h1") < 100.0 && bottom(".newest") < height as f64, "{}", bottom(".newest"));
        assert_eq!(window.ask("document.documentElement.scrollWidth"), width);
        let smallest = "Math.min(...[...document.querySelectorAll('body *')].map(e => parseFloat(getComputedStyle(e).fontSize)))";
        assert!(window.ask(smallest).as_f64() >= Some(12.0), "{}", window.ask(smallest));
        let complaints = window.log("browser");
        assert!(complaints.is_empty(), "{complaints:?}");
        let requests = window.requests();
        assert!(requests.contains(&home) && requests.iter().any(|url| url.contains("/map/waves.png")));
        // Before the page, the browser shows one of its own.
        let since = requests.iter().skip_while(|url| **url != home);
        let elsewhere: Vec<&String> = since.filter(|url| !url.starts_with(&home)).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}
