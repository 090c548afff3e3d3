// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An authority issues the certificates of a cluster. It writes files to a directory: ca.crt and, for each name,
// NAME.crt and NAME.key.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.certificate, a.key = a.write(t, "ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "cluster"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue issues a certificate for both ends of a connection. Kubernetes reads its names as a user and a group.
func (a *authority) issue(t *testing.T, file, user, group string, addresses ...net.IP) {
	t.Helper()
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	a.write(t, file, &x509.Certificate{
		Subject: subject, IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

// write makes a certificate and its key, signed by the authority or, at first, by itself.
func (a *authority) write(t *testing.T, file string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		file + ".crt": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(block), 0o600))
	}
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate, key
}

// kubeconfig issues a certificate for a user and returns a file with which the user reaches the API server.
func (a *authority) kubeconfig(t *testing.T, file, user, group string) string {
	t.Helper()
	a.issue(t, file, user, group)
	path := filepath.Join(a.dir, file+".kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: user}}]
clusters: [{name: cluster, cluster: {server: "https://%s:6443", certificate-authority: %s}}]
users: [{name: user, user: {client-certificate: %s, client-key: %s}}]
`, controlPlane, filepath.Join(a.dir, "ca.crt"), filepath.Join(a.dir, file+".crt"), filepath.Join(a.dir, file+".key")), 0o600))
	return path
}
