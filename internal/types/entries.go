package types

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// vips reads config or config6: VIP -> port -> ServiceDef.
func (p *parser) vips(at place, section string, into map[string]PortMap, family string) {
	if isNull(at.node) {
		return
	}
	if at.node.Kind != yaml.MappingNode {
		first := len(p.doc.Problems)
		p.add(at, Problem{}, Invalid, "is %s; it must be a map of VIPs", kindOf(at.node))
		p.fail(first, badEntry{section: section, whole: true})
		return
	}
	// owners says how the VIP and port of an entry were spelled, and whether the
	// two claims on one were found already.
	owners := map[[2]string]string{}
	for _, e := range pairs(at.node, false) {
		item := at.in(e.key, e.value)
		first := len(p.doc.Problems)
		vip, err := ParseVIP(e.key, family)
		if err != nil {
			p.add(place{item.path, e.keyAt}, Problem{VIP: e.key}, Invalid, "%v", err)
		}
		if e.again {
			p.add(place{item.path, e.keyAt}, Problem{VIP: e.key}, Invalid, "the VIP is given twice; the ports of both are taken together, so write them under one key")
			p.doc.Problems[len(p.doc.Problems)-1].Served = ServedRest
		}
		switch {
		case isNull(e.value):
			p.add(item, Problem{VIP: e.key}, Invalid, "is null; write {} or remove the VIP")
			p.fail(first, badEntry{section: section, key: e.key})
		case e.value.Kind != yaml.MappingNode:
			p.add(item, Problem{VIP: e.key}, Invalid, "is %s; it must be a map of ports", kindOf(e.value))
			p.fail(first, badEntry{section: section, key: e.key})
		default:
			ports := into[vip]
			if ports == nil {
				ports = PortMap{}
			}
			p.ports(item, section, e.key, vip, ports, owners, err != nil, first)
			if err == nil {
				into[vip] = ports
			}
		}
	}
}

// ports reads the entries of one VIP. badVIP says that the VIP itself is
// wrong (the problem at vipProblem says how): then none of them counts.
func (p *parser) ports(at place, section, spelling, vip string, into PortMap, owners map[[2]string]string, badVIP bool, vipProblem int) {
	for _, e := range pairs(at.node, false) {
		item := at.in(e.key, e.value)
		about := Problem{VIP: or(vip, spelling), Port: e.key, Service: serviceIn(e.value)}
		first := len(p.doc.Problems)
		_, err := parsePort(e.key)
		if err != nil {
			p.add(place{item.path, e.keyAt}, about, Invalid, "%v", err)
		}
		def := &ServiceDef{}
		p.def(item, about, def)
		invalid := false
		for _, pr := range p.doc.Problems[first:] {
			invalid = invalid || pr.Reason != UnknownKey
		}
		owner := [2]string{vip, e.key}
		if was, taken := owners[owner]; taken && err == nil && !badVIP {
			if was == spelling {
				p.add(place{item.path, e.keyAt}, about, Invalid, "the port is given twice; remove one")
			} else {
				p.add(place{item.path, e.keyAt}, about, Conflict, "%q and %q are the same address, and both claim port %s; remove one", was, spelling, e.key)
			}
			delete(into, e.key)
			invalid = true
		}
		if !badVIP && err == nil {
			owners[owner] = spelling
		}
		switch {
		case badVIP && !invalid:
			p.doc.bad = append(p.doc.bad, badEntry{section: section, key: spelling, port: e.key, def: *def, problem: vipProblem, count: 1})
		case invalid:
			p.fail(first, badEntry{section: section, key: spelling, port: e.key, def: *def})
			if badVIP { // the VIP's problem is this entry's too
				p.doc.bad = append(p.doc.bad, badEntry{section: section, key: spelling, port: e.key, def: *def, problem: vipProblem, count: 1})
			}
		default:
			into[e.key] = def
		}
	}
}

// def reads one entry.
func (p *parser) def(at place, about Problem, d *ServiceDef) {
	if at.node.Kind != yaml.MappingNode {
		p.add(at, about, Invalid, "is %s; an entry is a map with namespace, service and portName", kindOf(at.node))
		return
	}
	fields := map[string]any{
		"namespace": &d.Namespace, "service": &d.Service, "portname": &d.PortName,
		"ipv4enabled": &d.IPV4Enabled, "ipv6enabled": &d.IPV6Enabled,
		"tcpenabled": &d.TCPEnabled, "udpenabled": &d.UDPEnabled, "proxyprotocolenabled": &d.ProxyProtocolEnabled,
	}
	for _, e := range pairs(at.node, true) {
		item := at.in(e.key, e.value)
		if e.again {
			p.add(place{item.path, e.keyAt}, about, Invalid, "the key is given twice; remove one")
			continue
		}
		key := strings.ToLower(e.key)
		if key == "ipvsoptions" {
			p.options(item, about, &d.IPVSOptions)
		} else if target, known := fields[key]; known {
			p.scalar(item, about, target)
		} else {
			p.add(place{item.path, e.keyAt}, about, UnknownKey, "unknown key %q", e.key)
		}
	}
	p.check(at.in("namespace", at.node), about, checkName(d.Namespace))
	p.check(at.in("service", at.node), about, checkName(d.Service))
	p.check(at.in("portName", at.node), about, checkPortName(d.PortName))
}

// serviceIn is the service that an entry names, valid or not, as problems show it.
func serviceIn(n *yaml.Node) string {
	var namespace, service string
	if n.Kind == yaml.MappingNode {
		for _, e := range pairs(n, true) {
			switch strings.ToLower(e.key) {
			case "namespace":
				namespace = e.value.Value
			case "service":
				service = e.value.Value
			}
		}
	}
	if namespace == "" && service == "" {
		return ""
	}
	return namespace + "/" + service
}

func (p *parser) check(at place, about Problem, err error) {
	if err != nil {
		p.add(at, about, Invalid, "%v", err)
	}
}

func (p *parser) options(at place, about Problem, o *IPVSOptions) {
	if isNull(at.node) {
		return
	}
	if at.node.Kind != yaml.MappingNode {
		p.add(at, about, Invalid, "is %s; it must be a map", kindOf(at.node))
		return
	}
	fields := map[string]any{
		"scheduler": &o.Scheduler, "flags": &o.Flags, "forwardingmethod": &o.ForwardingMethod,
		"uthreshold": &o.UThreshold, "lthreshold": &o.LThreshold,
	}
	for _, e := range pairs(at.node, true) {
		item := at.in(e.key, e.value)
		if e.again {
			p.add(place{item.path, e.keyAt}, about, Invalid, "the key is given twice; remove one")
		} else if target, known := fields[strings.ToLower(e.key)]; known {
			p.scalar(item, about, target)
		} else {
			p.add(place{item.path, e.keyAt}, about, UnknownKey, "unknown key %q", e.key)
		}
	}
	if err := checkScheduler(o.Scheduler); err != nil {
		p.check(at.in("scheduler", at.node), about, err)
	} else {
		flags, err := parseFlags(o.Scheduler, o.Flags)
		p.check(at.in("flags", at.node), about, err)
		o.Flags = flags
	}
	p.check(at.in("forwardingMethod", at.node), about, checkForwarding(o.ForwardingMethod))
}

// scalar reads text, true or false, or a count into target. null is the zero value.
func (p *parser) scalar(at place, about Problem, target any) {
	n := at.node
	if isNull(n) {
		return
	}
	if n.Kind != yaml.ScalarNode {
		p.add(at, about, Invalid, "is %s; it must be a single value", kindOf(n))
		return
	}
	switch t := target.(type) {
	case *string:
		*t = n.Value
	case *bool:
		if n.Tag != "!!bool" {
			p.add(at, about, Invalid, "is %s; it must be true or false", kindOf(n))
			return
		}
		*t = strings.EqualFold(n.Value, "true")
	case *int:
		v, err := strconv.Atoi(n.Value)
		if err != nil || v < 0 || v > 1<<31-1 || n.Value != strconv.Itoa(v) {
			p.add(at, about, Invalid, "is %s; it must be a whole number from 0 to 2147483647", kindOf(n))
			return
		}
		*t = v
	}
}
