package rules

import (
	"slices"
	"time"
)

var noteClusters = keep(orderClusters, (*signals).noteCluster)

func init() {
	add := func(name, doc, bound string, read func(*signals) int64) {
		register(noteClusters, Signal{name, doc, "fingerprint", "all", bound, "10"}, read)
	}
	const as = "as cluster_size"
	add("signal.cluster_size", "contents of the project that are almost the same as this one, it included", "20000 clusters",
		func(s *signals) int64 { return s.cluster().size })
	add("signal.cluster_sources", "different sources among them, at most 64", as,
		func(s *signals) int64 { return int64(len(s.cluster().sources)) })
	add("signal.cluster_sessions", "different sessions among them, at most 64", as,
		func(s *signals) int64 { return int64(len(s.cluster().sessions)) })
	add("signal.cluster_agents", "different agents among them, at most 64", as,
		func(s *signals) int64 { return int64(len(s.cluster().agents)) })
	register(noteClusters, Signal{"signal.cluster_age", "seconds since the first of them", "fingerprint", "all", as, "10"},
		func(s *signals) float64 { return s.since(s.cluster().first) })
}

// tableClusters holds clusters of two contents or more.
var tableClusters = newTable(2, "clusters", 20_000)

type cluster struct {
	first                     time.Time
	size                      int64
	sources, sessions, agents []uint32
}

func (c *cluster) bytes(e enc) enc {
	e.num(uint64(c.first.UnixNano()))
	e.num(uint64(c.size))
	e.hashes(c.sources)
	e.hashes(c.sessions)
	e.hashes(c.agents)
	return e
}

func readCluster(b []byte) *cluster {
	d := dec(b)
	return &cluster{first: time.Unix(0, int64(d.num())).UTC(), size: int64(d.num()), sources: d.hashes(), sessions: d.hashes(), agents: d.hashes()}
}

// noteCluster puts the content into the cluster of the first fingerprint band
// that is known, and makes all of its bands known. Of a content with few words
// only the same one counts. A cluster of one is its head and nothing else.
func (s *signals) noteCluster() {
	if !s.hasContent() {
		return
	}
	in := s.in
	if len(in.features.Prints) == 0 || in.features.Words < 4 {
		s.clusterRec = new(cluster)
		return
	}
	b := s.t.book()
	if b == nil {
		return
	}
	bands := in.features.Prints[0].Bands()
	b.warm(postBands, bands)
	var first uint32
	known := -1
	for i, h := range bands {
		if ref, ok := b.get(postBands, h); ok {
			known, first = i, ref
			break
		}
	}
	c := &cluster{first: in.Event.Time}
	if known < 0 {
		s.founds = bands[0]
		first = s.ownGroup(b)
	} else {
		h := readHead(b.head(first))
		id := h.cluster
		if v := s.t.get(tableClusters, s.t.hashed(id)); v != nil {
			c = readCluster(v)
		} else {
			c = &cluster{first: h.at, size: 1, sources: []uint32{h.source}, sessions: []uint32{h.in}, agents: []uint32{h.by}}
		}
		defer func() { s.t.put(tableClusters, s.t.hashed(id), s.t.give(c.bytes(s.t.take()))) }()
	}
	c.size++
	source, session, agent := s.member()
	for _, add := range [...]struct {
		set *[]uint32
		h   uint32
	}{{&c.sources, source}, {&c.sessions, session}, {&c.agents, agent}} {
		if len(*add.set) < maxSeen && !slices.Contains(*add.set, add.h) {
			*add.set = append(*add.set, add.h)
		}
	}
	for i, h := range bands {
		if i > known && known >= 0 {
			if _, ok := b.get(postBands, h); ok {
				continue
			}
		}
		if i != known {
			first = b.put(postBands, h, first)
		}
	}
	s.clusterRec = c
}

func (s *signals) cluster() *cluster {
	if s.clusterRec == nil {
		return new(cluster)
	}
	return s.clusterRec
}
