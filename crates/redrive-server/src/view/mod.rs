//! What the API answers with, as types: the handlers write them, the command line reads them, and
//! `/openapi.json` describes them.

mod books;
mod entry;
mod group;
mod letter;
mod name;
mod operation;
mod pipeline;
mod series;

pub use books::{BalanceView, BookView, BooksView};
pub use entry::{AuditPage, EntryView};
pub use group::{GroupView, GroupsPage};
pub use letter::{
    AttemptView, EditView, FailureView, HeaderView, LetterPage, LetterView, OriginView, PayloadView,
    RedeliveryView, ResolutionView, SummaryView,
};
pub use name::{ClassName, KindName, OperationStateName, PayloadFormat, RedeliveryStateName, StatusName};
pub use operation::{CountView, Done, OperationPage, OperationView, PreviewView};
pub use pipeline::{LettersView, PipelineView, PipelinesView, RatesView, TypeView, Unanswered};
pub use series::{PointView, SeriesView, StatsView};
