package local

import (
	"fmt"

	"railguard/deploy/local/freeport"
)

// Ports are the TCP ports on 127.0.0.1. A port that is 0 is a free one, or its default when Fixed.
type Ports struct {
	// Fixed gives every port that is 0 its default, for a stack that people address by hand.
	Fixed bool

	LockServer, PaymentResource, RailProxy, Worker, RailStub int
	Temporal, UI                                             int
	LockDB, PayDB                                            int
}

// DefaultPorts are the ports that documentation and examples use.
func DefaultPorts() Ports {
	return Ports{
		Fixed: true, LockServer: 8081, PaymentResource: 8082, RailProxy: 8083, Worker: 8084, RailStub: 8090,
		Temporal: 7233, UI: 8233, LockDB: 15432, PayDB: 15433,
	}
}

// PortName is one port by the name that its flag of `railguard dev` is made of: "--<name>-port".
type PortName struct {
	Name string
	Port *int
}

// Names lists the ports by name, in the order in which people look for them.
func (p *Ports) Names() []PortName {
	return []PortName{
		{LockServer, &p.LockServer}, {PaymentResource, &p.PaymentResource}, {RailProxy, &p.RailProxy},
		{Worker, &p.Worker}, {RailStub, &p.RailStub}, {Temporal, &p.Temporal}, {"ui", &p.UI},
		{"lockdb", &p.LockDB}, {"paydb", &p.PayDB},
	}
}

// of is the port that was asked for; 0 is a free one.
func (p Ports) of(name string) int {
	defaults := DefaultPorts()
	byDefault := defaults.Names()
	for i, asked := range p.Names() {
		if asked.Name != name {
			continue
		}
		if *asked.Port == 0 && p.Fixed {
			return *byDefault[i].Port
		}
		return *asked.Port
	}
	return 0
}

// check refuses a port that is taken, or given twice, before anything starts.
func (p Ports) check(o Options) error {
	owner := map[int]string{}
	for _, each := range p.Names() {
		port := p.of(each.Name)
		if port == 0 || (each.Name == "ui" && o.Headless) || (each.Name == Worker && o.NoWorker) {
			continue
		}
		if other, twice := owner[port]; twice {
			return fmt.Errorf("port %d is given to both %s and %s: move one with --%s-port", port, other, each.Name, each.Name)
		}
		owner[port] = each.Name
		if !freeport.Free(port) {
			return fmt.Errorf("port %d of %s is busy: stop what listens there, move it with --%s-port, or take free ports with --free-ports", port, each.Name, each.Name)
		}
	}
	return nil
}

// choose is the port to start a process on.
func (s *Stack) choose(name string) (port int, fixed bool, err error) {
	if port = s.options.Ports.of(name); port != 0 {
		return port, true, nil
	}
	port, err = freeport.Pick()
	return port, false, err
}
