// Command khatru-peer serves a khatru relay on the Badger event store: the peer that
// hikyaku-bench measures against. It is khatru's own example with flags for folder and address,
// and nothing tuned either way.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/fiatjaf/eventstore/badger"
	"github.com/fiatjaf/khatru"
)

func main() {
	data := flag.String("data", "./khatru-data", "folder of the Badger store")
	listen := flag.String("listen", "127.0.0.1:7778", "address and port to listen on")
	flag.Parse()

	relay := khatru.NewRelay()
	store := badger.BadgerBackend{Path: *data}
	if err := store.Init(); err != nil {
		log.Fatalf("opening %s: %v", *data, err)
	}
	relay.StoreEvent = append(relay.StoreEvent, store.SaveEvent)
	relay.QueryEvents = append(relay.QueryEvents, store.QueryEvents)
	relay.CountEvents = append(relay.CountEvents, store.CountEvents)
	relay.DeleteEvent = append(relay.DeleteEvent, store.DeleteEvent)
	relay.ReplaceEvent = append(relay.ReplaceEvent, store.ReplaceEvent)

	// khatru asks for AUTH only when told to; a client test needs the challenge at once.
	relay.OnConnect = append(relay.OnConnect, khatru.RequestAuth)

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatalf("listening on %s: %v", *listen, err)
	}
	log.Printf("khatru-peer ready on ws://%s", listener.Addr())
	go func() { log.Fatal(http.Serve(listener, relay)) }()

	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	<-stop.Done()
	store.Close()
}
