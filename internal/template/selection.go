package template

import (
	"fmt"

	"github.com/lb-render/lb-render/internal/types"
)

// ofProtocol returns the listeners of a protocol, in their order. Two of them
// on one VIP and port are an error: HAProxy opens both sockets and splits the
// clients between two proxies, and no daemon's check says so.
func ofProtocol(protocol string, listeners []*types.Listener) ([]*types.Listener, error) {
	type bind struct {
		vip  string
		port int
	}
	seen := map[bind]*types.Listener{}
	var out []*types.Listener
	for _, l := range listeners {
		if l.Protocol != protocol {
			continue
		}
		b := bind{l.VIP, l.Port}
		if other := seen[b]; other != nil {
			return nil, fmt.Errorf("%s port %d/%s has two listeners, %s for %s/%s and %s for %s/%s", l.VIP, l.Port, protocol,
				other.Name, other.Namespace, other.Service, l.Name, l.Namespace, l.Service)
		}
		seen[b] = l
		out = append(out, l)
	}
	return out, nil
}

// realServers returns the real servers of a listener that IPVS can have for it:
// those with an address of the VIP's family, and for tunnels of either. One of
// the wrong family makes keepalived and ipvsadm refuse the whole file.
func realServers(l *types.Listener) []*types.RealServer {
	family := types.FamilyOf(l.VIP)
	var out []*types.RealServer
	for _, r := range l.RealServers() {
		f := types.FamilyOf(r.Address)
		if _, err := ipAddress(r.Address); err == nil && (f == family || l.ForwardingMethod == "i") {
			out = append(out, r)
		}
	}
	return out
}

// totalWeight adds up the weights of real servers.
func totalWeight(servers []*types.RealServer) int {
	sum := 0
	for _, r := range servers {
		sum += r.Weight
	}
	return sum
}

// addresses returns the addresses of the VIPs of a family, in their order.
func addresses(family string, vips []*types.VIP) ([]string, error) {
	var out []string
	for _, v := range vips {
		if types.FamilyOf(v.Address) == family {
			a, err := ipAddress(v.Address)
			if err != nil {
				return nil, err
			}
			out = append(out, a)
		}
	}
	return out, nil
}
