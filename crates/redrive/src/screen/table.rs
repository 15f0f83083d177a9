//! A table that fits its terminal: what must be copied is never broken, what is long is cut, and where there is no room
//! for columns side by side they stand one below the other.
//!
//! Of these arrangements the first that fits is used:
//! 1. all columns, the message last;
//! 2. without the columns that can be spared, the last of them first;
//! 3. the message on a line of its own, below its row, with as many of the spared columns as fit;
//! 4. one line per cell, a block per row, where nothing is left out or cut.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::{Tone, paint};

/// Between two columns.
const GAP: usize = 2;
/// A column that may be cut keeps this much.
const LEAST: usize = 12;
/// A message that has less room than this goes below its row.
const LEAST_MESSAGE: usize = 30;
/// How far a message below its row is set in.
const INDENT: usize = 4;

/// What may be done to a column for want of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Nothing: it is a number, or a name that somebody must copy.
    Whole,
    /// It is left out.
    Spared,
    /// It is cut on the right.
    Cut,
    /// It goes below its row, and is cut there.
    Message,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    fit: Fit,
}

impl Column {
    /// A column that is always shown whole.
    pub(crate) const fn whole(title: &'static str) -> Self {
        Self { title, fit: Fit::Whole }
    }

    /// A column that is left out where there is no room.
    pub(crate) const fn spared(title: &'static str) -> Self {
        Self { title, fit: Fit::Spared }
    }

    /// A column of names that may be long.
    pub(crate) const fn cut(title: &'static str) -> Self {
        Self { title, fit: Fit::Cut }
    }

    /// The last column: a sentence.
    pub(crate) const fn message(title: &'static str) -> Self {
        Self { title, fit: Fit::Message }
    }
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// The widest cell of each column, its title included.
    natural: Vec<usize>,
}

/// How wide each column is; none for one that is left out.
type Widths = Vec<Option<usize>>;

impl Table {
    /// A table of these columns; a row has a cell for each.
    pub(crate) fn new(columns: &[Column], rows: Vec<Vec<Cell>>) -> Self {
        let widest = |at: usize| rows.iter().map(|row| row[at].text.width()).max().unwrap_or(0);
        let natural = columns.iter().enumerate().map(|(at, column)| widest(at).max(column.title.width()));
        let natural = natural.collect();
        Self { columns: columns.to_vec(), rows, natural }
    }

    /// Without the columns of these titles that say nothing in any row: no number but 0.
    pub(crate) fn without_empty(self, titles: &[&str]) -> Self {
        let says_something =
            |at: usize| self.rows.iter().any(|row| !matches!(&*row[at].text, "" | "-" | "0"));
        let stays = |at: usize| !titles.contains(&self.columns[at].title) || says_something(at);
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| stays(*at)).collect();
        let columns: Vec<Column> = kept.iter().map(|at| self.columns[*at]).collect();
        let row = |row: &Vec<Cell>| kept.iter().map(|at| row[*at].clone()).collect();
        Self::new(&columns, self.rows.iter().map(row).collect())
    }

    /// The table within this width; without one, everything whole.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let Some(width) = width else { return self.grid(&self.whole(), None) };
        if let Some(widths) = self.arrange(width, true) {
            return self.grid(&widths, None);
        }
        match self.arrange(width, false) {
            Some(widths) => self.grid(&widths, Some(width)),
            None => self.blocks(),
        }
    }

    fn whole(&self) -> Widths {
        self.natural.iter().map(|width| Some(*width)).collect()
    }

    /// The widths of the columns, with the message among them or without; nothing when they do not fit.
    fn arrange(&self, width: usize, with_message: bool) -> Option<Widths> {
        let mut least: Widths = (0..self.columns.len()).map(|at| self.least(at, with_message)).collect();
        while total(&least) > width {
            let spared = (0..least.len())
                .rev()
                .find(|at| self.columns[*at].fit == Fit::Spared && least[*at].is_some())?;
            least[spared] = None;
        }
        let mut room = width - total(&least);
        for (at, width) in least.iter_mut().enumerate() {
            let Some(width) = width else { continue };
            let more = (self.natural[at] - *width).min(room);
            *width += more;
            room -= more;
        }
        Some(least)
    }

    fn least(&self, at: usize, with_message: bool) -> Option<usize> {
        let natural = self.natural[at];
        match self.columns[at].fit {
            Fit::Whole | Fit::Spared => Some(natural),
            Fit::Cut => Some(natural.min(LEAST.max(self.columns[at].title.width()))),
            Fit::Message => with_message.then(|| natural.min(LEAST_MESSAGE)),
        }
    }

    /// Rows and columns; `below` is the width of the terminal when messages stand below their rows.
    fn grid(&self, widths: &Widths, below: Option<usize>) -> String {
        let header = self.columns.iter().map(|column| Cell::new(Tone::Strong, column.title));
        let mut lines = vec![line(&header.collect::<Vec<_>>(), widths)];
        for row in &self.rows {
            lines.push(line(row, widths));
            lines.extend(below.and_then(|width| self.message(row, width)));
        }
        lines.join("\n")
    }

    fn message(&self, row: &[Cell], width: usize) -> Option<String> {
        let at = self.columns.iter().position(|column| column.fit == Fit::Message)?;
        let cell = row.get(at).filter(|cell| !cell.text.is_empty())?;
        let text = cut(&cell.text, width.saturating_sub(INDENT));
        Some(format!("{:INDENT$}{}", "", paint(cell.tone, &text)))
    }

    /// A block per row, a line per cell.
    fn blocks(&self) -> String {
        let widest = self.columns.iter().map(|column| column.title.width()).max().unwrap_or(0);
        let line = |(column, cell): (&Column, &Cell)| {
            let title = padded(column.title, widest);
            format!("{}  {}", paint(Tone::Strong, &title), paint(cell.tone, &cell.text))
        };
        let block = |row: &Vec<Cell>| self.columns.iter().zip(row).map(line).collect::<Vec<_>>().join("\n");
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
    }
}

fn total(widths: &Widths) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn line(cells: &[Cell], widths: &Widths) -> String {
    let shown = cells.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?)));
    let mut line = String::new();
    let mut owed = 0;
    for (cell, width) in shown {
        let text = cut(&cell.text, width);
        line.extend(std::iter::repeat_n(' ', owed));
        line.push_str(&paint(cell.tone, &text).to_string());
        // Blanks at the end of a line are not written.
        owed = width - text.width() + GAP;
    }
    line
}

fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(blanks))
}

/// As much of the beginning as fits.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut shown, mut used) = (String::new(), 1);
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        shown.push(letter);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    const COLUMNS: [Column; 5] = [
        Column::whole("GROUP"),
        Column::whole("OPEN"),
        Column::spared("24 HOURS"),
        Column::cut("TYPE"),
        Column::message("FAILURE"),
    ];
    const MESSAGE: &str = "bank answered 422 Unprocessable Entity: order <n>: unknown currency EUR";

    fn groups() -> Table {
        let cells = ["e364a3e77b83396f", "240", "                       █", "PaymentCaptured", MESSAGE];
        Table::new(&COLUMNS, vec![cells.map(|text| text.to_owned().into()).to_vec()])
    }

    /// As on a screen without colours.
    fn shown(table: &Table, width: Option<usize>) -> Vec<String> {
        let text = anstream::adapter::strip_str(&table.render(width)).to_string();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn everything_is_whole_where_there_is_room_or_no_terminal() {
        let lines = shown(&groups(), None);
        assert!(lines[1].ends_with(MESSAGE) && lines[1].contains('█'), "{lines:#?}");
        assert_eq!(shown(&groups(), Some(200)), lines);
    }

    /// The fingerprint, which is there to be copied, was broken in two.
    #[test]
    fn a_message_without_room_is_below_its_row_and_no_name_is_broken() {
        let lines = shown(&groups(), Some(66));
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[1].starts_with("e364a3e77b83396f  240"), "{lines:#?}");
        assert_eq!(lines[2], "    bank answered 422 Unprocessable Entity: order <n>: unknown cu…");
    }

    #[test]
    fn what_can_be_spared_goes_before_the_message_does() {
        let lines = shown(&groups(), Some(90));
        assert!(lines[0].ends_with("TYPE             FAILURE") && lines.len() == 2, "{lines:#?}");
        assert!(lines[1].contains("bank answered 422 Unprocessable"), "{lines:#?}");
    }

    #[test]
    fn where_nothing_fits_each_cell_has_a_line() {
        let lines = shown(&groups(), Some(20));
        assert_eq!(lines[0], "GROUP     e364a3e77b83396f");
        assert_eq!(lines[4], format!("FAILURE   {MESSAGE}"));
    }

    #[test]
    fn columns_that_say_nothing_are_left_out_when_asked_for() {
        let columns = [Column::whole("PIPELINE"), Column::whole("PARKED"), Column::whole("GAP")];
        let row = |cells: [&str; 3]| cells.map(|text| text.to_owned().into()).to_vec();
        let table = Table::new(&columns, vec![row(["orders", "0", "0"]), row(["mails", "-", "0"])]);
        assert_eq!(shown(&table.without_empty(&["PARKED"]), None)[0], "PIPELINE  GAP");
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(cut("日本", 4), "日本");
    }

    proptest! {
        #[test]
        fn no_line_of_a_grid_is_wider_than_the_terminal(width in 60_usize..250, text in "[a-z 日…]{0,90}") {
            let row = ["e364a3e77b83396f", "7", "", &text, &text].map(|text| text.to_owned().into()).to_vec();
            let table = Table::new(&COLUMNS, vec![row]);
            for line in shown(&table, Some(width)) {
                prop_assert!(line.width() <= width, "{line}");
            }
        }
    }
}
