// Command controlplane is a Kubernetes control plane in one binary: etcd,
// kube-apiserver and kube-controller-manager with the controllers that make
// EndpointSlices, all from Go modules. Tests and the demo run lb-render against
// it. It is a module of its own, so that the product's go.mod stays small.
//
//	controlplane init [--apiservers N] [--port P] DIR   writes certificates, tokens, kubeconfigs
//	                                                     and a script for each process to DIR
//	controlplane certs [--keep-ca] [--server N] DIR      makes new certificates there
//	controlplane up DIR                                  runs the scripts until TERM or INT
//	controlplane apply DIR FILE...                       puts manifests into the cluster that runs there
//	controlplane kubeconfig DIR NAMESPACE/NAME           prints one with a token of that service account
//
// Called by the name etcd, kube-apiserver or kube-controller-manager it is that
// program; the scripts use links of these names. A test runs the scripts itself,
// so that it can stop, hang and kill each process alone.
//
// Everything listens on 127.0.0.1, RBAC is on, and every certificate is signed
// by the directory's own CA. It is no cluster to keep anything in: etcd does not fsync.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		exit(runEtcd(os.Args[1:]))
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	}
	exit(run(os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

const usage = `usage: controlplane init [--apiservers N] [--port P] DIR | certs [--keep-ca] [--server N] DIR | up DIR |
       controlplane apply DIR FILE... | kubeconfig DIR NAMESPACE/NAME`

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	set := flag.NewFlagSet("controlplane "+args[0], flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintln(set.Output(), usage)
		set.PrintDefaults()
	}
	servers := set.Int("apiservers", 1, "how many kube-apiservers share the etcd")
	port := set.Int("port", 20000, "the first port to try; those that are in use are skipped")
	server := set.Int("server", -1, "the one API server that gets a new certificate; -1 is all of them")
	keepCA := set.Bool("keep-ca", false, "sign the new certificates with the CA that is there")
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	more := map[string]int{"apply": -1, "kubeconfig": 1}[args[0]] // arguments after DIR; -1 is one or more
	if set.NArg() < 1 || more >= 0 && set.NArg() != 1+more || more < 0 && set.NArg() < 2 {
		return errors.New(usage)
	}
	dir, err := filepath.Abs(set.Arg(0))
	if err != nil {
		return err
	}
	switch args[0] {
	case "init":
		return initDir(dir, *servers, *port)
	case "certs":
		return writeCerts(dir, *keepCA, *server)
	case "up":
		return up(dir)
	case "apply", "kubeconfig":
		a, err := newAPI(dir)
		if err != nil {
			return err
		}
		if args[0] == "apply" {
			return a.apply(set.Args()[1:])
		}
		text, err := a.kubeconfig(dir, set.Arg(1))
		if err == nil {
			fmt.Print(text)
		}
		return err
	}
	return errors.New(usage)
}
