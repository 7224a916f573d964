package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs one etcd: DIR, client URL, peer URL.
func runEtcd(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("etcd: want DIR, client URL and peer URL, got %q", args)
	}
	client, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	peer, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Dir = args[0]
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogLevel = "warn"
	c.UnsafeNoFsync = true // killed processes lose nothing by it, and nobody keeps anything here
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	select {
	case <-stop:
		return nil
	case err := <-e.Err():
		return err
	}
}
