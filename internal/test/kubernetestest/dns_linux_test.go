// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsEnv makes the test binary a DNS server. Its value is an address and the file of services.
const dnsEnv = "KERNELSYM_TEST_DNS"

func init() {
	address, file, ok := strings.Cut(os.Getenv(dnsEnv), " ")
	if !ok {
		return
	}
	fmt.Fprintln(os.Stderr, "dns:", serveDNS(address, file))
	os.Exit(1)
}

// serveDNS answers queries for the services of the cluster. Each line of the file has the name and the address of one. It
// is read for each query.
func serveDNS(address, file string) error {
	conn, err := net.ListenPacket("udp", address) //nolint:noctx // it serves until it is killed
	if err != nil {
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		services, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		answer, err := answerDNS(&query, string(services)).Pack()
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(answer, from); err != nil {
			return err
		}
	}
}

// answerDNS answers a query from lines with names and addresses.
func answerDNS(query *dnsmessage.Message, services string) *dnsmessage.Message {
	question := query.Questions[0]
	answer := &dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: query.ID, Response: true, Authoritative: true, RecursionDesired: query.RecursionDesired, RCode: dnsmessage.RCodeNameError,
		},
		Questions: query.Questions,
	}
	for line := range strings.Lines(services) {
		name, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.EqualFold(name, question.Name.String()) {
			continue
		}
		answer.RCode = dnsmessage.RCodeSuccess // of a name without addresses of that type as well
		if ip, err := netip.ParseAddr(address); err == nil && ip.Is4() && question.Type == dnsmessage.TypeA {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: ip.As4()},
			})
		}
	}
	return answer
}
