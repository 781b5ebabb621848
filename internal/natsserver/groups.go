package natsserver

import (
	"io/fs"
	"os"
	"slices"
	"time"

	"lazaret/streams"
)

// Groups tells whether sentinel groups may run in other processes. It is not safe for concurrent use.
type Groups struct {
	data   string
	own    []string
	read   fs.FileInfo // the register's file when it was last read; nil: it was never read
	others bool
}

// WatchGroups returns the Groups of an installation. own lists the sentinel groups that run in this process.
func WatchGroups(data string, own []string) *Groups { return &Groups{data: data, own: own} }

// Others reports whether the register of credentials has a valid credential for a sentinel group that does not run in
// this process. It reads the register only if the file has changed. If it cannot read the register, it returns true.
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
