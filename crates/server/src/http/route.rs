//! Routes: which handler answers which method and path.

use std::{fmt, time::Duration};

use http::{HeaderValue, Method, header};
use matchit::InsertError;
use percent_encoding::percent_decode_str;

use super::{Body, IntoResponse, Problem, Response, request::Parameters};

/// A method and a path that a handler answers.
///
/// In the path `{name}` stands for anything up to the next slash, `{*name}` for all the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    limits: RouteLimits,
}

/// What a route has of its own in the place of the server's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RouteLimits {
    pub(crate) body_bytes_max: Option<usize>,
    pub(crate) timeout: Option<Duration>,
}

impl Route {
    /// Makes a route.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            limits: RouteLimits::default(),
        }
    }

    /// Has this route read so many bytes of a request's body at most, whatever
    /// [`ServerConfig::body_bytes_max`](crate::ServerConfig::body_bytes_max) says.
    #[must_use]
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.body_bytes_max = Some(bytes);
        self
    }

    /// Has this route take so long at most, whatever
    /// [`ServerConfig::handler_timeout`](crate::ServerConfig::handler_timeout) says. An upload's way counts,
    /// too: its handler waits for it. If that is longer than
    /// [`ServerConfig::http_timeout`](crate::ServerConfig::http_timeout), connections on which nothing moves
    /// are borne for so long.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.limits.timeout = Some(time);
        self
    }

    /// Returns how long it may take, if it says so.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.limits.timeout
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Makes a route for GET, and for HEAD where that has none of its own.
pub fn get(path: impl Into<String>) -> Route {
    Route::new(Method::GET, path)
}

/// Makes a route for POST.
pub fn post(path: impl Into<String>) -> Route {
    Route::new(Method::POST, path)
}

/// Makes a route for PUT.
pub fn put(path: impl Into<String>) -> Route {
    Route::new(Method::PUT, path)
}

/// Makes a route for PATCH.
pub fn patch(path: impl Into<String>) -> Route {
    Route::new(Method::PATCH, path)
}

/// Makes a route for DELETE.
pub fn delete(path: impl Into<String>) -> Route {
    Route::new(Method::DELETE, path)
}

/// All routes of a server; the same for every worker.
#[derive(Default)]
pub(crate) struct RouteTable {
    paths: matchit::Router<usize>,
    answers: Vec<PathAnswers>,
    /// Which of the answers a path has, as it was written.
    written: Vec<String>,
}

/// What answers a method at one path.
struct MethodAnswer {
    method: Method,
    handler: usize,
    /// Whose handler it is.
    plugin: &'static str,
    limits: RouteLimits,
}

/// What answers at one path: by number among the routes' handlers.
enum PathAnswers {
    Methods(Vec<MethodAnswer>),
    /// One handler answers every method, and what is below the path.
    Mount(usize),
}

/// What a request's path and method have found.
pub(crate) enum Found {
    /// Nothing has this path.
    Nothing,
    /// This handler.
    Handler(usize, Parameters, RouteLimits),
    /// Nothing needs to be asked.
    Answer(Response),
}

impl RouteTable {
    /// Adds a route of a plugin. `Err` says why not.
    pub(crate) fn add(
        &mut self,
        route: &Route,
        handler: usize,
        plugin: &'static str,
    ) -> Result<(), String> {
        let answer = MethodAnswer {
            method: route.method.clone(),
            handler,
            plugin,
            limits: route.limits,
        };
        if let Some(known) = self.written.iter().position(|path| *path == route.path) {
            let Some(PathAnswers::Methods(methods)) = self.answers.get_mut(known) else {
                return Err("a service is mounted there".to_owned());
            };
            if let Some(other) = methods.iter().find(|known| known.method == route.method) {
                return Err(match other.plugin {
                    other if other == plugin => format!("{plugin} answers it already"),
                    other => format!("both {other} and {plugin} answer it"),
                });
            }
            methods.push(answer);
            return Ok(());
        }
        let answers = PathAnswers::Methods(vec![answer]);
        self.insert(std::slice::from_ref(&route.path), answers)
    }

    /// Tells whether there is nothing but the relay.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Adds a service for all that is at a path or below it.
    pub(crate) fn mount(&mut self, path: &str, handler: usize) -> Result<(), String> {
        if path.is_empty() {
            return Err("the relay itself is at /; mount it under a path".to_owned());
        }
        let paths = [
            path.to_owned(),
            format!("{path}/"),
            format!("{path}/{{*below}}"),
        ];
        self.insert(&paths, PathAnswers::Mount(handler))
    }

    fn insert(&mut self, paths: &[String], answers: PathAnswers) -> Result<(), String> {
        for path in paths {
            if !path.starts_with('/') {
                return Err("it does not begin with a slash".to_owned());
            }
            self.paths
                .insert(path.as_str(), self.answers.len())
                .map_err(|error| match error {
                    InsertError::Conflict { with } => format!("{with} is there already"),
                    other => other.to_string(),
                })?;
        }
        self.written
            .push(paths.first().cloned().unwrap_or_default());
        self.answers.push(answers);
        Ok(())
    }

    /// Finds what answers a request.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Found {
        let Ok(found) = self.paths.at(path) else {
            return Found::Nothing;
        };
        let methods = match self.answers.get(*found.value) {
            Some(PathAnswers::Methods(methods)) => methods,
            Some(PathAnswers::Mount(handler)) => {
                return Found::Handler(*handler, Parameters::new(), RouteLimits::default());
            }
            None => return Found::Nothing,
        };
        let answer_of = |wanted: &Method| methods.iter().find(|answer| answer.method == *wanted);
        let answer = answer_of(method).or_else(|| {
            (*method == Method::HEAD)
                .then(|| answer_of(&Method::GET))
                .flatten()
        });
        let Some(answer) = answer else {
            return Found::Answer(no_such_method(method, methods));
        };
        let mut parameters = Parameters::new();
        for (name, value) in found.params.iter() {
            let Ok(value) = percent_decode_str(value).decode_utf8() else {
                let text = format!("`{value}` in the path is no UTF-8 when it is decoded");
                return Found::Answer(Problem::bad_request(text).into_response());
            };
            parameters.push((name.to_owned(), value.into_owned()));
        }
        Found::Handler(answer.handler, parameters, answer.limits)
    }
}

/// Answers OPTIONS, and refuses every other method that the path has not.
fn no_such_method(method: &Method, methods: &[MethodAnswer]) -> Response {
    let mut allowed: Vec<&str> = methods
        .iter()
        .map(|answer| answer.method.as_str())
        .collect();
    if allowed.contains(&"GET") && !allowed.contains(&"HEAD") {
        allowed.push("HEAD");
    }
    allowed.push("OPTIONS");
    let allowed = allowed.join(", ");
    let mut response = if *method == Method::OPTIONS {
        let mut response = Response::new(Body::default());
        *response.status_mut() = http::StatusCode::NO_CONTENT;
        response
    } else {
        let text = format!("{method} is not for this path; use one of {allowed}");
        IntoResponse::into_response(Problem::new(http::StatusCode::METHOD_NOT_ALLOWED, text))
    };
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(table: &RouteTable, method: &Method, path: &str) -> String {
        match table.find(method, path) {
            Found::Nothing => "nothing".to_owned(),
            Found::Handler(handler, parameters, _) => format!("{handler} {parameters:?}"),
            Found::Answer(response) => format!(
                "{} {:?}",
                response.status(),
                response.headers().get("allow")
            ),
        }
    }

    #[test]
    fn a_path_and_a_method_find_their_handler() {
        let mut table = RouteTable::default();
        table.add(&get("/things/{id}"), 0, "Things").unwrap();
        table.add(&post("/things/{id}"), 1, "Things").unwrap();
        table.add(&get("/files/{*path}"), 2, "Files").unwrap();
        table.mount("/app", 3).unwrap();
        for (method, path, expected) in [
            (Method::GET, "/things/7", r#"0 [("id", "7")]"#),
            (Method::HEAD, "/things/7", r#"0 [("id", "7")]"#),
            (Method::POST, "/things/a%20b", r#"1 [("id", "a b")]"#),
            (Method::GET, "/files/a/b", r#"2 [("path", "a/b")]"#),
            (Method::PUT, "/app", "3 []"),
            (Method::PUT, "/app/x/y", "3 []"),
            (Method::GET, "/application", "nothing"),
            (Method::GET, "/things", "nothing"),
            (
                Method::DELETE,
                "/things/7",
                r#"405 Method Not Allowed Some("GET, POST, HEAD, OPTIONS")"#,
            ),
            (
                Method::OPTIONS,
                "/files/x",
                r#"204 No Content Some("GET, HEAD, OPTIONS")"#,
            ),
            (Method::GET, "/things/%ff", "400 Bad Request None"),
        ] {
            assert_eq!(found(&table, &method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn what_would_never_be_reached_is_refused() {
        let mut table = RouteTable::default();
        table.add(&get("/a/{x}"), 0, "A").unwrap();
        table.mount("/m", 1).unwrap();
        for (route, plugin, reason) in [
            (get("/a/{x}"), "A", "A answers it already"),
            (get("/a/{x}"), "B", "both A and B answer it"),
            (post("/a/{y}"), "A", "/a/{x} is there already"),
            (get("a"), "A", "it does not begin with a slash"),
            (get("/m"), "A", "a service is mounted there"),
            (get("/m/{z}"), "A", "/m/{*below} is there already"),
        ] {
            let refused = table.add(&route, 9, plugin).unwrap_err();
            assert_eq!(refused, reason, "{route}");
        }
        assert!(table.add(&get("/m/{z}/{"), 9, "A").is_err());
        assert!(table.mount("", 9).is_err());
        assert!(table.mount("/m", 9).is_err());
    }
}
