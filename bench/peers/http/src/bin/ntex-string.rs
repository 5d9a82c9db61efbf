//! A string by ntex on tokio, on one worker: usage `ntex-string PORT`.

use std::{error::Error, net::Ipv4Addr};

use ntex::web::{self, App, HttpServer};

async fn hello() -> &'static str {
    "Hello, World!"
}

#[ntex::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).ok_or("usage: ntex-string PORT")?;
    HttpServer::new(async || App::new().route("/hello", web::get().to(hello)))
        .workers(1)
        .bind((Ipv4Addr::LOCALHOST, port.parse::<u16>()?))?
        .run()
        .await?;
    Ok(())
}
