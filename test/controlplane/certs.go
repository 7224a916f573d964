package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// servers is more than any directory has; a certificate too many does no harm.
const servers = 3

// writeCerts writes ca.crt and ca.key, unless keepCA is set, and a certificate
// for each API server, or just the one, each file by a rename: a server that runs takes them up.
func writeCerts(dir string, keepCA bool, only int) error {
	caKeyFile, caFile := filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca.crt")
	if !keepCA {
		key, err := newKey(caKeyFile)
		if err != nil {
			return err
		}
		serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
		if err != nil {
			return err
		}
		template := &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("controlplane-ca-%d", serial)},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return err
		}
		if err := writePEM(caFile, "CERTIFICATE", der); err != nil {
			return err
		}
	}
	ca, caKey, err := readCA(caFile, caKeyFile)
	if err != nil {
		return err
	}
	for i := range servers {
		if only >= 0 && i != only {
			continue
		}
		name := filepath.Join(dir, fmt.Sprintf("apiserver-%d", i))
		key, err := newKey(name + ".key")
		if err != nil {
			return err
		}
		serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
		if err != nil {
			return err
		}
		template := &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: "kube-apiserver"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "kubernetes", "kubernetes.default.svc"},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
		if err != nil {
			return err
		}
		if err := writePEM(name+".crt", "CERTIFICATE", der); err != nil {
			return err
		}
	}
	return nil
}

// writeServiceAccountKey writes the key that signs the accounts' tokens, and its public half.
func writeServiceAccountKey(dir string) error {
	key, err := newKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", der)
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readCA(certFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := readPEM(certFile)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(keyFile)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", certFile, err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	return cert, key, nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New(path + ": no PEM block")
	}
	return block.Bytes, nil
}
