package natsserver

import (
	"io/fs"
	"os"
	"slices"
	"time"

	"lazaret/streams"
)

// Groups tells whether sentinel groups may run outside of this process. It is not safe for concurrent use.
type Groups struct {
	data   string
	own    []string
	read   fs.FileInfo // file info of the register at the last read; nil: never read
	others bool
}

// WatchGroups returns the Groups of an installation. own are the sentinel groups that this process runs.
func WatchGroups(data string, own []string) *Groups { return &Groups{data: data, own: own} }

// Others reports whether a sentinel group that this process does not run has a valid credential. It reads
// the register of issued credentials only if the register's file has changed. If it cannot read the
// register, it returns true.
func (g *Groups) Others() bool {
	now, err := os.Stat(registerFile(g.data))
	if err != nil {
		g.read = nil
		return true
	}
	if g.read != nil && os.SameFile(g.read, now) && g.read.ModTime().Equal(now.ModTime()) {
		return g.others
	}
	issued, err := Credentials(g.data)
	if err != nil {
		g.read = nil
		return true
	}
	g.read = now
	g.others = slices.ContainsFunc(issued, func(i *Issued) bool {
		group, ok := streams.SentinelGroup(string(i.Role))
		return ok && !slices.Contains(g.own, group) && i.State(time.Now()) == "valid"
	})
	return g.others
}
