//! `GET /api/v1/stats`: numbers over time, for charts.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::moment::Moment;
use crate::query::Params;
use crate::series::{INTERVAL, Series};
use crate::view::StatsView;
use crate::{Problem, duration};

/// At most so many points of each pipeline.
const MOST_POINTS: i64 = 720;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Which numbers.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsIn {
    /// Of this pipeline.
    pipeline: Option<String>,
    /// From then on: a time, or how long ago (an hour; a day is kept).
    #[param(inline)]
    since: Option<Moment>,
    /// What each point stands for (10 s, or more if there would be more than 720 points).
    #[param(pattern = "^[1-9][0-9]{0,3}(s|m|h)$")]
    step: Option<String>,
}

/// Numbers over time.
#[utoipa::path(get, path = "/stats", operation_id = "get_stats", tag = "numbers", params(StatsIn), responses((status = 200, description = "The numbers of each pipeline.", body = StatsView)))]
pub(super) async fn stats(
    State(series): State<Series>,
    Params(asked): Params<StatsIn>,
) -> Result<Json<StatsView>, Problem> {
    let now = Timestamp::now().as_second();
    let since = asked.since.map_or(now - HOUR, |Moment(at)| at.as_second()).clamp(now - DAY, now);
    let least = Duration::from_secs((now - since).div_euclid(MOST_POINTS).unsigned_abs()).max(INTERVAL);
    let step = match asked.step.as_deref() {
        Some(text) => {
            duration::parse(text).filter(|step| *step >= Duration::from_secs(1)).ok_or_else(|| {
                Problem::field(
                    "step",
                    "is not accepted: expected a duration such as 10s or 5m, a second or more",
                )
            })?
        }
        None => least,
    };
    let step = Duration::from_secs(step.max(least).as_secs());
    let since = Timestamp::from_second(since).unwrap_or_default();
    let pipelines = series.since(since, step, asked.pipeline.as_deref());
    Ok(Json(StatsView { since, step: step.as_secs(), pipelines }))
}
