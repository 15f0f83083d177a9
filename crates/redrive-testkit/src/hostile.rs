//! What a hostile producer writes, for everything that shows text of producers.

/// Mark-up, escape sequences, formulas, headers, mentions, text that runs backwards or cannot be seen.
const SEEDS: [&str; 30] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "</textarea><svg/onload=alert(1)>",
    "&lt;b&gt;",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1:A9)",
    "\t=1+1",
    "\"quoted\",=1",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}[2J\u{1b}[H",
    "\u{9b}31m",
    "\u{7f}\u{8}\u{8}",
    "a\r\nSet-Cookie: x=1",
    "a\r\n.\r\nBcc: evil@example.com",
    "a\nb",
    "a\rb",
    "\u{202e}gpj.exe",
    "\u{2066}hidden\u{2069}",
    "\u{200b}zero\u{feff}",
    "\u{e0041}tag",
    "<!channel> *bold* `code` <https://evil.example|bank>",
    "javascript:alert(1)",
    "../../etc/passwd",
    "'; DROP TABLE x; --",
    "%00%0d%0a",
    "{{7*7}}",
    "${jndi:ldap://x}",
];

const SHAPES: [fn(&str) -> String; 10] = [
    str::to_owned,
    |text| format!("{text}{text}"),
    |text| format!("order {text}"),
    |text| format!("\"{text}\""),
    |text| format!("{{\"a\":\"{text}\"}}"),
    |text| format!("\u{1b}[1m{text}"),
    |text| format!("{text}\r\n"),
    |text| text.chars().rev().collect(),
    |text| format!("\n{text}"),
    |text| format!("={text}"),
];

/// Three hundred texts.
#[must_use]
pub fn texts() -> Vec<String> {
    SEEDS.iter().flat_map(|seed| SHAPES.iter().map(move |shape| shape(seed))).collect()
}

/// Whether it does something to whoever reads it on a terminal: controls but the end of a line, and what
/// cannot be seen or turns text around.
#[must_use]
pub fn is_harmful(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
