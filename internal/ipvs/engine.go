package ipvs

import (
	"encoding/binary"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// From linux/ip_vs.h: enum of commands and of the attributes of a service.
const (
	genlName        = "IPVS"
	genlVersion     = 1
	cmdGetService   = 4
	cmdAttrService  = 1
	svcAttrFamily   = 1
	svcAttrProtocol = 2
	svcAttrAddress  = 3
	svcAttrPort     = 4
	svcAttrFWMark   = 5
	svcAttrEngine   = 11
)

// engineReader reads which services have a persistence engine. The library that reads
// the rest leaves it out, and its edits drop it; so without this we would not
// see a service that somebody made with --pe, and would not know that it differs.
type engineReader struct {
	conn   *genetlink.Conn
	family genetlink.Family
}

func newEngineReader() (*engineReader, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, err
	}
	family, err := conn.GetFamily(genlName)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &engineReader{conn, family}, nil
}

func (e *engineReader) close() error { return e.conn.Close() }

// read gives the services that have an engine.
func (e *engineReader) read() (map[ServiceKey]string, error) {
	messages, err := e.conn.Execute(genetlink.Message{
		Header: genetlink.Header{Command: cmdGetService, Version: genlVersion},
	}, e.family.ID, netlink.Request|netlink.Dump)
	if err != nil {
		return nil, err
	}
	engines := map[ServiceKey]string{}
	for _, m := range messages {
		attributes, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return nil, err
		}
		for attributes.Next() {
			if attributes.Type() != cmdAttrService {
				continue
			}
			attributes.Nested(func(service *netlink.AttributeDecoder) error {
				key, engine := decodeEngine(service)
				if engine != "" {
					engines[key] = engine
				}
				return nil
			})
		}
		if err := attributes.Err(); err != nil {
			return nil, err
		}
	}
	return engines, nil
}

func decodeEngine(service *netlink.AttributeDecoder) (ServiceKey, string) {
	var (
		family, protocol, port uint16
		address                []byte
		mark                   uint32
		engine                 string
	)
	for service.Next() {
		switch service.Type() {
		case svcAttrFamily:
			family = service.Uint16()
		case svcAttrProtocol:
			protocol = service.Uint16()
		case svcAttrAddress:
			address = service.Bytes()
		case svcAttrPort:
			if b := service.Bytes(); len(b) == 2 {
				port = binary.BigEndian.Uint16(b)
			}
		case svcAttrFWMark:
			mark = service.Uint32()
		case svcAttrEngine:
			engine = service.String()
		}
	}
	return keyOf(family, protocol, address, port, mark), engine
}
