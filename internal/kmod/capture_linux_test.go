// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// serverModules are modules that are typically loaded on servers.
const serverModules = `ext4 xfs btrfs overlay fuse nfsv4 nfsd isofs vfat
	nf_tables nft_chain_nat nft_ct nft_compat nf_conntrack_netlink xt_conntrack xt_MASQUERADE xt_set ip_set_hash_ip
	iptable_nat ip6table_filter br_netfilter bridge vxlan geneve macvlan ipvlan bonding veth tun wireguard ip_vs_rr
	tls sctp vsock vhost_net virtio_net virtio_blk virtio_scsi sd_mod nvme ena ixgbevf
	dm_crypt dm_thin_pool raid1 raid456 loop nbd iscsi_tcp kvm
	sch_fq sch_htb sch_ingress cls_bpf act_mirred tcp_bbr tcp_diag aesni_intel ghash_clmulni_intel`

// TestCapture prints the files in which a kernel shows a hundred modules, as an archive in base64:
// the content of internal/test/bench/testdata/modules.tar.zst. It does so only if KERNELSYM_CAPTURE
// is set:
//
//	go run ./internal/test/kerneltest/vm -kernel 6.12 -env KERNELSYM_CAPTURE=1 \
//		-run 'TestCapture$' -v ./internal/kmod |
//		sed -n 's/^captured: //p' | base64 -d >internal/test/bench/testdata/modules.tar.zst
func TestCapture(t *testing.T) {
	kerneltest.NeedModules(t)
	if os.Getenv("KERNELSYM_CAPTURE") == "" {
		t.Skip("KERNELSYM_CAPTURE is not set: nothing is captured")
	}
	for _, name := range strings.Fields(serverModules) {
		_ = kerneltest.LoadModule(name) // not every kernel has all of them, and some need a device
	}
	loadMany(t)
	var compressed bytes.Buffer
	z, err := zstd.NewWriter(&compressed, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	archive := tar.NewWriter(z)
	add := func(name string, content []byte) {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}))
		_, err := archive.Write(content)
		require.NoError(t, err)
	}
	add("proc/modules", readFile(t, "/proc/modules"))
	add("proc/kallsyms", moduleSymbols(t))
	for _, m := range runningTable(t).Loaded() {
		files, err := filepath.Glob("/sys/module/" + m.Name() + "/sections/*")
		require.NoError(t, err)
		for _, name := range append(files, "/sys/module/"+m.Name()+"/notes/.note.gnu.build-id") {
			add(strings.TrimPrefix(name, "/"), readFile(t, name))
		}
	}
	require.NoError(t, archive.Close())
	require.NoError(t, z.Close())
	text := base64.StdEncoding.EncodeToString(compressed.Bytes())
	for len(text) > 0 {
		n := min(len(text), 1000)
		fmt.Println("captured: " + text[:n])
		text = text[n:]
	}
}

// moduleSymbols returns the lines of /proc/kallsyms about modules' code. Before them is one line of
// the core kernel, because a real list always begins with the core kernel.
func moduleSymbols(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintln(&b, "ffffffff81000000 T _text")
	for line := range bytes.Lines(readFile(t, "/proc/kallsyms")) {
		isText := func(typ byte) bool { return bytes.IndexByte([]byte("tTwW"), typ) >= 0 } // data lies far away
		if bytes.HasSuffix(line, []byte("]\n")) && isText(line[17]) {
			b.Write(line)
		}
	}
	return b.Bytes()
}
