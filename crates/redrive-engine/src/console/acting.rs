//! What operators do: to one letter at once, to many by an operation, and to the pipelines.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use redrive_core::dead_letter::{Acted, DeadLetterQueue as _, LetterId, Operator, Order, Refusal};
use redrive_store::{
    Asked, NewLetter, NewOperation, Opened, Operation, OperationState, RequestKey, Requests,
};

use super::{Action, Console, ConsoleError, Desk, Preview, Request, is_waiting, request};

/// How many letters are looked at side by side.
const LOOKS: usize = 8;

impl Console {
    /// Sends one letter back to work, with another payload if one is given. `key` makes it one request,
    /// however often it is sent.
    ///
    /// # Errors
    /// [`ConsoleError::Refused`] when it is not waiting, and the others.
    pub async fn redrive(
        &self,
        id: &LetterId,
        payload: Option<&[u8]>,
        operator: &Operator,
        key: Option<&str>,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(&id.pipeline)?;
        self.records.audit.ping().await?;
        let digest = request::digest_of(Action::Redrive, id, payload);
        let Some(asking) = self.ask(operator, key, digest).await? else { return Ok(()) };
        let done = self.redrive_asked(desk, id, payload, &Order::new(operator, &request::mark(key))).await;
        asking.end(&self.records.requests, &done).await;
        done
    }

    async fn redrive_asked(
        &self,
        desk: &Desk,
        id: &LetterId,
        payload: Option<&[u8]>,
        order: &Order,
    ) -> Result<(), ConsoleError> {
        let acted = match payload {
            Some(payload) => self.redrive_edited(desk, id, payload, order).await?,
            None => desk.redrive(std::slice::from_ref(&id.local), order).await?,
        };
        desk.wake();
        self.touch(&id.pipeline);
        // It was done, and the answer was lost.
        let is_repeated = acted.done.is_empty() && !acted.before.is_empty();
        refuse(id, acted)?;
        if is_repeated {
            return Ok(());
        }
        let action = if payload.is_some() { "edit and redrive" } else { "redrive" };
        self.write_down(order.operator(), action, &id.to_string(), 1, "").await;
        Ok(())
    }

    /// Closes one letter. With a key the same again is no mistake, and changes nothing.
    ///
    /// # Errors
    /// As [`Console::redrive`].
    pub async fn resolve(
        &self,
        id: &LetterId,
        operator: &Operator,
        note: &str,
        key: Option<&str>,
    ) -> Result<(), ConsoleError> {
        let desk = self.desk(&id.pipeline)?;
        self.records.audit.ping().await?;
        let digest = request::digest_of(Action::Resolve, id, Some(note.as_bytes()));
        let Some(asking) = self.ask(operator, key, digest).await? else { return Ok(()) };
        let done = self.resolve_asked(desk, id, operator, note, asking.is_resumed()).await;
        asking.end(&self.records.requests, &done).await;
        done
    }

    async fn resolve_asked(
        &self,
        desk: &Desk,
        id: &LetterId,
        operator: &Operator,
        note: &str,
        is_resumed: bool,
    ) -> Result<(), ConsoleError> {
        let acted = desk.queue.resolve(std::slice::from_ref(&id.local), operator, note).await?;
        self.touch(&id.pipeline);
        let is_closed_so = acted.done.is_empty() && !acted.before.is_empty();
        refuse(id, acted)?;
        if is_closed_so {
            // By this very request, whose answer was lost, or by somebody else with the same words.
            let by = desk.queue.get(&id.local).await?.and_then(|letter| letter.resolution);
            return match is_resumed && by.is_some_and(|by| by.by == operator.name()) {
                true => Ok(()),
                false => Err(ConsoleError::Refused(Refusal::NotWaiting(id.to_string()))),
            };
        }
        self.write_down(operator, "resolve", &id.to_string(), 1, note).await;
        Ok(())
    }

    /// Asks the ledger whether this was done before, if it has a key; nothing when it was.
    async fn ask(
        &self,
        operator: &Operator,
        key: Option<&str>,
        digest: u64,
    ) -> Result<Option<Asking>, ConsoleError> {
        let Some(key) = key else { return Ok(Some(Asking::WithoutKey)) };
        let key = RequestKey { operator: operator.clone(), key: key.to_owned() };
        Ok(match self.records.requests.ask(&key, "letter", digest).await? {
            Asked::New(id) => Some(Asking::New(id)),
            Asked::Begun(id) => Some(Asking::Resumed(id)),
            Asked::Answered(_) => None,
        })
    }

    /// Takes a letter in that another service hands over.
    ///
    /// # Errors
    /// [`ConsoleError::Store`]; [`redrive_store::Error::Refused`] in it when the letter cannot be kept.
    pub async fn take_in(&self, letter: NewLetter) -> Result<LetterId, ConsoleError> {
        if let Some(target) = letter.target.as_ref().filter(|target| !self.targets.contains(*target)) {
            let known: Vec<&str> = self.targets().collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(ConsoleError::Request(format!(
                "there is no target {target} in [intake.targets]: {known}; add it, or leave the target out"
            )));
        }
        let intake = &self.records.intake;
        let is_new = intake.add(std::slice::from_ref(&letter)).await? > 0;
        let number = intake.number_of(&letter.source).await?;
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        let id = LetterId::new(intake.pipeline(), number);
        if !is_new && !self.is_same(&id, &letter).await? {
            return Err(ConsoleError::SourceInUse(id));
        }
        self.touch(&id.pipeline);
        if is_new && let Some(workers) = self.desks.get(&id.pipeline).and_then(|desk| desk.workers.as_ref()) {
            workers.received(&id, &letter);
        }
        Ok(id)
    }

    /// What an operation would do, if it were started now.
    ///
    /// # Errors
    /// [`ConsoleError::Request`] when it asks for nothing or for too much, and those of the stores.
    pub async fn preview(&self, request: &Request) -> Result<Preview, ConsoleError> {
        request.check()?;
        let as_of = jiff::Timestamp::now();
        let letters = match request.ids.is_empty() {
            true => self.count_found(request).await?,
            false => self.count_named(request).await?,
        };
        Ok(Preview { letters, as_of })
    }

    /// Starts an operation; a [`Runner`](super::Runner) carries it out. The same key again is the same operation.
    ///
    /// # Errors
    /// As [`Console::preview`].
    pub async fn start(
        &self,
        request: &Request,
        operator: &Operator,
        key: Option<&str>,
    ) -> Result<Operation, ConsoleError> {
        request.check()?;
        let request = &Request { pipelines: self.pipelines_of(request)?, ..request.clone() };
        let text = request.to_json();
        let new = NewOperation {
            action: request.action.name(),
            operator,
            note: &request.note,
            request: &text,
            key,
        };
        let id = match self.records.operations.open(&new).await? {
            Opened::Known(id) => {
                let known = self.operation(id).await?;
                let age = Timestamp::now().duration_since(known.created_at);
                if !request.repeats(&known.request, age) {
                    return Err(ConsoleError::KeyInUse(id));
                }
                id
            }
            Opened::New(id) => {
                let subject = format!("operation {id}: {}", request.subject());
                self.write_down(operator, request.action.name(), &subject, 0, &request.note).await;
                id
            }
        };
        self.wake.notify_one();
        self.operation(id).await
    }

    /// Pauses, resumes or cancels an operation.
    ///
    /// # Errors
    /// [`ConsoleError::NoOperation`]; [`ConsoleError::WrongState`] when it cannot go there from where it is, and is
    /// not there already.
    pub async fn turn(
        &self,
        id: i64,
        next: OperationState,
        operator: &Operator,
    ) -> Result<Operation, ConsoleError> {
        let operation = self.operation(id).await?;
        let verb = match next {
            OperationState::Paused => "pause",
            OperationState::Running => "resume",
            _ => "cancel",
        };
        // Only a set that is whole is sent: whoever freezes it says when.
        if (operation.state, next) == (OperationState::Freezing, OperationState::Running) {
            return Err(ConsoleError::WrongState { id, verb, state: operation.state });
        }
        let reason = match next {
            OperationState::Running => String::new(),
            _ => format!("by {}", operator.name()),
        };
        if !self.records.operations.become_state(id, next, &reason).await? {
            // Whoever asks twice, or a moment after somebody else, has what they want.
            let now = self.operation(id).await?;
            let is_so = now.state == next && next != OperationState::Running;
            return if is_so {
                Ok(now)
            } else {
                Err(ConsoleError::WrongState { id, verb, state: operation.state })
            };
        }
        self.write_down(operator, verb, &format!("operation {id}"), operation.total, "").await;
        self.wake.notify_one();
        self.operation(id).await
    }

    /// Writes down what somebody did elsewhere.
    ///
    /// # Errors
    /// [`ConsoleError::Store`].
    pub async fn note(&self, operator: &Operator, action: &str, subject: &str) -> Result<(), ConsoleError> {
        Ok(self.records.audit.record(operator, action, subject, 0, "").await?)
    }

    /// First what it was, then the change: a crash in between leaves a record too many. What is no letter now has
    /// nothing to keep, and its queue says why it is none.
    async fn redrive_edited(
        &self,
        desk: &Desk,
        id: &LetterId,
        payload: &[u8],
        order: &Order,
    ) -> Result<Acted, ConsoleError> {
        let edits = &self.records.edits;
        let edit = match desk.queue.get(&id.local).await? {
            Some(was) => Some(edits.record(id, order.operator(), &was.payload, payload).await?),
            None => None,
        };
        let acted = desk.queue.redrive_edited(&id.local, payload, order).await?;
        if let Some(edit) = edit.filter(|_| acted.done.is_empty()) {
            edits.withdraw(edit).await?;
        }
        Ok(acted)
    }

    /// Whether the letter that is here is the one that is handed in again, as far as its sender decides.
    async fn is_same(&self, id: &LetterId, handed_in: &NewLetter) -> Result<bool, ConsoleError> {
        let here = match self.records.intake.get(&id.local).await? {
            Some(here) => here,
            // Purged in this moment: it was here.
            None => return Ok(true),
        };
        let edits = self.records.edits.of(id).await?;
        let payload = edits.last().map_or(&here.payload, |first| &first.original);
        Ok(here.summary.event_type == handed_in.event_type
            && here.summary.key == handed_in.key
            && *payload == handed_in.payload)
    }

    /// How many letters of each pipeline the filter means.
    async fn count_found(&self, request: &Request) -> Result<Vec<(String, u64)>, ConsoleError> {
        let mut letters = Vec::new();
        for desk in self.meant(&request.filter)? {
            let count = desk.queue.count(&request.filter).await?;
            if count > 0 {
                letters.push((desk.queue.pipeline().to_owned(), count));
            }
        }
        Ok(letters)
    }

    /// How many of the letters that are named, each once, are there and wait.
    async fn count_named(&self, request: &Request) -> Result<Vec<(String, u64)>, ConsoleError> {
        let ids: Vec<&LetterId> = request.ids.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut waiting: BTreeMap<String, u64> = BTreeMap::new();
        for some in ids.chunks(LOOKS) {
            let looks = some.iter().map(|id| self.waits(id));
            for (id, waits) in some.iter().zip(futures_util::future::join_all(looks).await) {
                if waits? {
                    *waiting.entry(id.pipeline.clone()).or_default() += 1;
                }
            }
        }
        Ok(waiting.into_iter().collect())
    }

    /// The pipelines of the letters that a request means.
    fn pipelines_of(&self, request: &Request) -> Result<Vec<String>, ConsoleError> {
        let named: BTreeSet<&String> = request.ids.iter().map(|id| &id.pipeline).collect();
        for pipeline in &named {
            self.desk(pipeline)?;
        }
        if !named.is_empty() {
            return Ok(named.into_iter().cloned().collect());
        }
        let meant = self.meant(&request.filter)?;
        Ok(meant.into_iter().map(|desk| desk.queue.pipeline().to_owned()).collect())
    }

    /// Whether this letter is there and waits.
    async fn waits(&self, id: &LetterId) -> Result<bool, ConsoleError> {
        let letter = self.desk(&id.pipeline)?.queue.get(&id.local).await?;
        Ok(letter.is_some_and(|letter| is_waiting(letter.summary.status)))
    }

    /// Writes into the audit log what concerns no letter, such as that somebody logged in.
    pub async fn record(&self, operator: &Operator, action: &str, subject: &str, note: &str) {
        self.write_down(operator, action, subject, 0, note).await;
    }

    /// What was done is done, also when the log is gone now: the caller must not be told otherwise.
    pub(super) async fn write_down(
        &self,
        operator: &Operator,
        action: &str,
        subject: &str,
        letters: u64,
        note: &str,
    ) {
        if let Err(error) = self.records.audit.record(operator, action, subject, letters, note).await {
            let operator = operator.name();
            tracing::error!(operator, action, subject, letters, note, %error, "done, but not in the audit log");
        }
    }
}

/// A request about one letter that is being carried out.
enum Asking {
    WithoutKey,
    /// The first with its key, under this number.
    New(i64),
    /// One with its key was begun before: what it asks for may be done already.
    Resumed(i64),
}

impl Asking {
    const fn is_resumed(&self) -> bool {
        matches!(self, Self::Resumed(_))
    }

    /// Writes down how it ended. What was refused may be asked for again; what broke off may have been done.
    async fn end(&self, requests: &Requests, done: &Result<(), ConsoleError>) {
        let (Self::New(id) | Self::Resumed(id)) = self else { return };
        let written = match done {
            Ok(()) => requests.answer(*id, "done").await,
            Err(ConsoleError::Unavailable(_) | ConsoleError::Store(_)) => Ok(()),
            Err(_) => requests.withdraw(*id).await,
        };
        if let Err(error) = written {
            tracing::warn!(request = id, %error, "the end of a request could not be written down");
        }
    }
}

/// Why nothing was done to this one letter, if so.
fn refuse(id: &LetterId, mut acted: Acted) -> Result<(), ConsoleError> {
    match acted.refused.pop() {
        None => Ok(()),
        Some(Refusal::Unknown(_)) => Err(ConsoleError::NoLetter(id.clone())),
        Some(Refusal::NotWaiting(_)) => Err(ConsoleError::Refused(Refusal::NotWaiting(id.to_string()))),
        Some(Refusal::Impossible { why, .. }) => {
            Err(ConsoleError::Refused(Refusal::Impossible { id: id.to_string(), why }))
        }
    }
}
