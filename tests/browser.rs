//! Tests reports in a real browser, Chromium, if it is installed. A script that only the test copy of a page
//! contains queries its layout.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::report::{FILE, events, report};

/// Path of Chromium; without it the test prints a message and passes.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)));
    let browser = named.into_iter().chain(found).find(|browser| browser.is_file());
    if browser.is_none() {
        // Written directly: the test harness captures the output of print macros of passing tests.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: no Chromium found, no report was looked at in a browser\n");
    }
    browser
}

/// Opens a page. Returns standard output and standard error.
fn browse(browser: &Path, page: &Path, options: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-background-networking",
        ])
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let complaints = text(&output.stderr);
    let complaints =
        complaints.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    (text(&output.stdout), complaints)
}

/// Script that reports facts about the page after layout.
const ASK: &str = r#"
const light = c => { const v = c.map(x => x / 255).map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const colour = text => { const n = text.match(/[\d.]+/g).map(Number); return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 }; };
const ground = e => { for (; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor); if (c.alpha > 0) return c.rgb; } return [255, 255, 255]; };
let contrast = { ratio: 99, of: "" };
for (const e of document.querySelectorAll("main *:not(svg *):not(svg), footer *")) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
  const [a, b] = [light(colour(getComputedStyle(e).color).rgb), light(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < contrast.ratio) contrast = { ratio, of: e.tagName + " " + e.textContent.slice(0, 40) };
}
const figures = [...document.querySelectorAll("svg")].map(svg => ({ role: svg.getAttribute("role"),
  title: svg.querySelector("title").textContent, words: svg.querySelector("desc").textContent, width: svg.getBoundingClientRect().width,
  outside: [...svg.querySelectorAll("text")].filter(t => { const b = t.getBBox(), v = svg.viewBox.baseVal;
    return !t.getAttribute("transform") && (b.x < 0 || b.x + b.width > v.width || b.y + b.height > v.height); }).map(t => t.textContent),
  overlapping: (() => { const boxes = [...svg.querySelectorAll("text")].filter(t => !t.getAttribute("transform")).map(t => [t.textContent, t.getBBox()]);
    const found = []; for (const [i, [s, a]] of boxes.entries()) for (const [t, b] of boxes.slice(i + 1))
      if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height - 1 && b.y < a.y + a.height - 1) found.push(s + " / " + t); return found; })() }));
const parameters = document.querySelector("details"); const closed = parameters ? parameters.getBoundingClientRect().height : 0;
if (parameters) parameters.querySelector("summary").click();
const first = document.querySelector("a, summary, [tabindex]");
const facts = { dark: matchMedia("(prefers-color-scheme: dark)").matches, paper: light(ground(document.body)), contrast, figures,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fetched: performance.getEntriesByType("resource").length, scripts: document.scripts.length,
  opens: parameters ? parameters.getBoundingClientRect().height > closed : null,
  skip: first.getAttribute("href"), unnamed: [...document.querySelectorAll("table")].filter(t => !t.querySelector("th[scope=col]")).length };
document.body.insertAdjacentHTML("beforeend", "<script type='application/json' id='facts'></" + "script>");
document.getElementById("facts").textContent = "FA" + "CTS" + JSON.stringify(facts) + "FA" + "CTS";
"#;

fn facts(browser: &Path, html: &str, options: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let policy = "style-src 'unsafe-inline'";
    assert!(html.contains(policy));
    let html = html.replace(policy, &format!("{policy}; script-src 'unsafe-inline'"));
    std::fs::write(&page, html.replace("</body>", &format!("<script>{ASK}</script></body>"))).unwrap();
    let (dom, complaints) = browse(browser, &page, &[&["--dump-dom"], options].concat());
    assert_eq!(complaints, "", "the console of the page");
    let facts = dom.split("FACTS").nth(1).unwrap_or_else(|| panic!("the page did not answer: {dom}"));
    serde_json::from_str(&facts.replace("&amp;", "&")).unwrap()
}

/// What must hold for every page, at every size and mode.
fn check(name: &str, facts: &Value) {
    assert_eq!(
        (&facts["fetched"], &facts["scripts"]),
        (&0.into(), &1.into()),
        "{name}: nothing but our own script"
    );
    assert!(facts["contrast"]["ratio"].as_f64().unwrap() >= 4.5, "{name}: {}", facts["contrast"]);
    assert!(
        facts["overflow"].as_f64().unwrap() <= 0.0,
        "{name}: wider than the window by {}",
        facts["overflow"]
    );
    assert_eq!(facts["skip"], "#verdict", "{name}: the first key leads to the verdict");
    assert_eq!(facts["unnamed"], 0, "{name}: columns of tables have names");
    assert_ne!(facts["opens"], false, "{name}: parameters can be opened");
    for figure in facts["figures"].as_array().unwrap() {
        assert_eq!(figure["role"], "img", "{name}");
        assert!(figure["words"].as_str().unwrap().starts_with("Estimates of "), "{name}: {figure}");
        assert_eq!(figure["outside"], serde_json::json!([]), "{name}: words outside of the figure");
        assert_eq!(figure["overlapping"], serde_json::json!([]), "{name}: words on words");
    }
}

#[test]
fn reports_in_a_browser() {
    let Some(browser) = chromium() else { return };
    let names: Vec<String> = (0..40).map(|number| format!("a group with a long name {number:02}")).collect();
    let many: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let unfair = report(&events(300, &[("F & <co>", 5), ("M", 2)]).0).0;
    let pages = [
        ("two groups", unfair.clone(), 1),
        ("forty groups", report(&events(4000, &many).0).0, 1),
        ("no alarm", report(&events(60, &[("F", 3), ("M", 3)]).0).0, 1),
        ("too little data", report("time,id,group,accepted\n7,1,F,\n").0, 0),
    ];
    for (name, html, figures) in &pages {
        for window in ["--window-size=900,1200", "--window-size=500,900"] {
            let facts = facts(&browser, html, &[window]);
            check(&format!("{name}, {window}"), &facts);
            assert_eq!(facts["figures"].as_array().unwrap().len(), *figures, "{name}");
            assert!(
                !facts["dark"].as_bool().unwrap() && facts["paper"].as_f64().unwrap() > 0.9,
                "{name}: light"
            );
        }
    }
    let dark = facts(&browser, &unfair, &["--blink-settings=preferredColorScheme=0"]);
    check("dark", &dark);
    assert!(dark["dark"].as_bool().unwrap() && dark["paper"].as_f64().unwrap() < 0.1, "{dark}");
}

#[test]
fn a_report_can_be_printed_and_a_figure_opened() {
    let Some(browser) = chromium() else { return };
    let folder = crate::cli::Folder::new()
        .file("fairness.toml", FILE)
        .file("events.csv", events(300, &[("F & <co>", 5), ("M", 2)]).0);
    folder.run("run fairness.toml events.csv --to page.html --to figure.svg -q");
    let paper = folder.path().join("page.pdf");
    let (_, complaints) =
        browse(&browser, &folder.path().join("page.html"), &[&format!("--print-to-pdf={}", paper.display())]);
    assert_eq!(complaints, "", "as it is, with its own policy");
    let pdf = String::from_utf8_lossy(&std::fs::read(paper).unwrap()).into_owned();
    let pages = pdf.matches("/Type /Page\n").count() + pdf.matches("/Type /Page ").count();
    assert!(pdf.starts_with("%PDF") && (1..=8).contains(&pages), "{pages} pages");
    let (dom, complaints) = browse(&browser, &folder.path().join("figure.svg"), &["--dump-dom"]);
    assert_eq!(complaints, "");
    assert!(dom.contains(">F &amp; &lt;co&gt;</text>") && !dom.contains("parsererror"), "{dom}");
}
