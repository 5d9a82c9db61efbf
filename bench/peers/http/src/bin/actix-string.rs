//! A string by actix-web, on one worker: usage `actix-string PORT`.

use std::{error::Error, net::Ipv4Addr};

use actix_web::{App, HttpServer, web};

async fn hello() -> &'static str {
    "Hello, World!"
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).ok_or("usage: actix-string PORT")?;
    HttpServer::new(|| App::new().route("/hello", web::get().to(hello)))
        .workers(1)
        .bind((Ipv4Addr::LOCALHOST, port.parse()?))?
        .run()
        .await?;
    Ok(())
}
