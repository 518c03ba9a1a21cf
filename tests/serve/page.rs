//! What a browser and a monitor see.

use std::time::{Duration, Instant};

use crate::centre::Centre;

#[test]
fn a_page_shows_what_is_served_and_a_monitor_is_told() {
    let centre = Centre::new("warm", "levels = { latency_p99 = '1h', error_rate = 0.0 }");
    (10..13).for_each(|day| centre.bring_day("inbox", day));
    let mut service = centre
        .command(&["serve", "serve.toml", "--set", "serve.http={ enabled = true, address = '127.0.0.1:0' }"])
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(service.stderr.take().unwrap()));
    let address =
        lines.find_map(|line| line.unwrap().strip_prefix("status: http://").map(str::to_string)).unwrap();
    // Somebody has to read on, or the service would wait.
    std::thread::spawn(move || lines.for_each(drop));
    let address = address.trim_end_matches('/').to_string();
    let ask = |path: &str| -> (u16, String) {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    };
    let begun = Instant::now();
    let metrics = loop {
        let (_, text) = ask("/metrics");
        if text.contains("wxsim_cycles_total{model=\"waves\",outcome=\"published\"} 2")
            || begun.elapsed() > Duration::from_secs(60)
        {
            break text;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(metrics.contains("wxsim_latency_seconds_count{model=\"waves\"} 2"), "{metrics}");
    assert!(metrics.contains("wxsim_drift{model=\"waves\",quantity=\"msl\"}"), "{metrics}");
    assert_eq!((ask("/healthz").0, ask("/readyz").0), (200, 200));
    std::thread::sleep(Duration::from_millis(1500));
    let (status, page) = ask("/");
    assert!(status == 200 && page.contains("2001-01-13T00:00Z") && page.contains("day012.nc"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    // Nothing of where things lie, and nothing but maps of models.
    assert!(!page.contains(&*centre.folder().to_string_lossy()) && !page.contains("inbox/"), "{page}");
    let (status, picture) = ask("/map/waves.png");
    assert!(status == 200 && picture.contains("content-type: image/png"), "{picture}");
    for path in
        ["/map/other.png", "/map/..%2f..%2fstate%2fledger.sqlite", "/map/waves", "/state/ledger.sqlite"]
    {
        assert_eq!(ask(path).0, 404, "{path}");
    }
    service.kill().unwrap();
    service.wait().unwrap();
}
