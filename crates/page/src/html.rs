//! The frame of a page, and text that cannot become part of it.

use std::fmt::Write as _;

/// Puts text into a page: nothing in it is taken for a mark. Control characters, which browsers drop, are shown.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control()
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c) =>
            {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

/// A whole page. `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A table; the cells are text. Columns from the second on are set to the right where `numbers` says so.
pub fn table(header: &[&str], rows: &[Vec<String>], numbers: bool) -> String {
    let class = if numbers { " class=\"numbers\"" } else { "" };
    let mut out = format!("<div class=\"wide\"><table{class}>\n<thead><tr>");
    for cell in header {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

/// Large numbers with names below them. Both are text.
pub fn facts(facts: &[(&str, String)]) -> String {
    let mut out = "<div class=\"facts\">\n".to_owned();
    for (name, value) in facts {
        let _ = writeln!(out, "<div class=\"fact\"><b>{}</b>{}</div>", escape(value), escape(name));
    }
    out.push_str("</div>\n");
    out
}

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6676; --line: #d9dee6; --back: #ffffff; --panel: #f5f7fa;
  --one: #2b6cb0; --two: #b7791f; --three: #5f8f4e; --none: #b9c1cc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #39424f; --back: #161b22;
  --panel: #1f2630; --one: #63a4e8; --two: #e0a84a; --three: #8cc07a; --none: #55606f; } }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .4rem 0; }
.soft { color: var(--soft); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.2rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.fact { color: var(--soft); background: var(--panel); border-radius: .4rem; padding: .7rem .9rem; }
.fact b { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; color: var(--ink); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1.25rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-bottom: .25rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .bar { fill: var(--one); } svg .axis { stroke: var(--line); } svg .line { stroke: var(--one); fill: none; stroke-width: 2; }
svg .two { fill: var(--two); } svg .three { fill: var(--three); } svg .none { fill: var(--none); } svg .name { fill: var(--ink); }
.key { color: var(--soft); font-size: .9rem; } .key i { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem;
  margin: 0 .35rem 0 1rem; background: var(--one); } .key i:first-child { margin-left: 0; } .key i.two { background: var(--two); }
.key i.three { background: var(--three); } .key i.none { background: var(--none); }
details > summary { cursor: pointer; color: var(--soft); margin: .4rem 0; }
main > figure { margin-top: 1.25rem; }
.pairs { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.25rem 2rem; margin: .9rem 0; }
svg .second { stroke: var(--two); } svg .dot { fill: var(--one); } svg .dot.second { fill: var(--two); stroke: none; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
.step { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1.1rem 0; }
.step.agent { border-color: var(--one); } .step.user { border-color: var(--two); }
.step h3 { font-size: .9rem; margin: 0 0 .3rem; color: var(--soft); font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .35rem 0; font: 13px/1.45 ui-monospace, monospace; }
pre.call, pre.seen { background: var(--panel); border-radius: .35rem; padding: .5rem .7rem; }
pre.thought { color: var(--soft); font-style: italic; }
@media print { main { max-width: none; padding: 0; } .step, figure { break-inside: avoid; } }
";
