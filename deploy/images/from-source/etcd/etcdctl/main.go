// Command etcdctl answers `etcdctl endpoint health [--endpoints URL]`, the health check of the compose stack, as the program of that
// name in the official image does. It is not the whole etcdctl: the image that it is in is a stand-in for where that one cannot be had.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const timeout = 5 * time.Second

func main() {
	if len(os.Args) < 3 || os.Args[1] != "endpoint" || os.Args[2] != "health" {
		fmt.Fprintln(os.Stderr, "usage: etcdctl endpoint health [--endpoints URL,…]; this stand-in knows nothing else")
		os.Exit(2)
	}
	flags := flag.NewFlagSet("etcdctl endpoint health", flag.ExitOnError)
	endpoints := flags.String("endpoints", "http://127.0.0.1:2379", "what to ask")
	_ = flags.Parse(os.Args[3:]) // ends the process by itself
	for _, endpoint := range strings.Split(*endpoints, ",") {
		if err := ask(endpoint); err != nil {
			fmt.Fprintf(os.Stderr, "%s is unhealthy: %v\n", endpoint, err)
			os.Exit(1)
		}
		fmt.Printf("%s is healthy\n", endpoint)
	}
}

// ask reads a key linearizably: a member that has no leader cannot answer.
func ask(endpoint string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: timeout, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err = client.Get(ctx, "health")
	return err
}
