package signals

import (
	"slices"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/signals/index"
)

var partClusters = keep(orderClusters, (*State).noteCluster)

func init() {
	add := func(name, doc, bound string, read func(*State) int64) {
		register(partClusters, Signal{name, doc, "fingerprint", "all", bound, "10"}, read)
	}
	const as = "as cluster_size"
	add(
		"signal.cluster_size",
		"number of nearly identical contents in the project, including this one; 0 for a text of the user or the operator, "+
			"which is not counted",
		"20000 clusters",
		func(s *State) int64 { return s.clusterRec.size },
	)
	add("signal.cluster_sources", "number of sources of the contents that cluster_size counts, at most 64", as,
		func(s *State) int64 { return int64(len(s.clusterRec.sources)) })
	add("signal.cluster_sessions", "number of sessions of the contents that cluster_size counts, at most 64", as,
		func(s *State) int64 { return int64(len(s.clusterRec.sessions)) })
	add("signal.cluster_agents", "number of agents of the contents that cluster_size counts, at most 64", as,
		func(s *State) int64 { return int64(len(s.clusterRec.agents)) })
	register(partClusters,
		Signal{"signal.cluster_age", "seconds since the first of the contents that cluster_size counts",
			"fingerprint", "all", as, "10"},
		func(s *State) float64 { return s.since(s.clusterRec.first) })
}

// tableClusters has the clusters of near-duplicate contents that have at least two contents.
var tableClusters = index.NewTable(2, "clusters", 20_000)

type cluster struct {
	first                     time.Time
	size                      int64
	sources, sessions, agents []uint32
}

func (c *cluster) bytes(e index.Encoder) index.Encoder {
	e.Num(uint64(c.first.UnixNano()))
	e.Num(uint64(c.size))
	e.Hashes(c.sources)
	e.Hashes(c.sessions)
	e.Hashes(c.agents)
	return e
}

func readCluster(b []byte) cluster {
	d := index.Decoder(b)
	return cluster{
		first:    time.Unix(0, int64(d.Num())).UTC(),
		size:     int64(d.Num()),
		sources:  d.Hashes(),
		sessions: d.Hashes(),
		agents:   d.Hashes(),
	}
}

// noteCluster finds the content's cluster, by the first of its fingerprint bands that a cluster already has. It adds
// the content to this cluster and records all its bands. Text of the user or the operator is put in no cluster, because
// they may repeat themselves. Content with few words counts as a repetition only if it is exactly the same. For a
// cluster with one content, only the content's origin is stored.
func (s *State) noteCluster() {
	if !s.hasContent() {
		return
	}
	in := s.In
	owners := s.origin == string(beliefs.OriginUser) || s.origin == string(beliefs.OriginSystem)
	if owners || len(in.features.Prints) == 0 || in.features.Words < 4 {
		return
	}
	b := s.t.Index()
	if b == nil {
		return
	}
	bands := in.features.Prints[0].Bands()
	b.Prefetch(index.PostBands, bands)
	var first uint32
	known := -1
	for i, h := range bands {
		if ref, ok := b.Get(index.PostBands, h); ok {
			known, first = i, ref
			break
		}
	}
	by, c := s.member(), &s.clusterRec
	source, session, agent := by[0], by[1], by[2]
	if known < 0 {
		s.founds = bands[0]
		first = s.ownOrigin(b)
		hs := s.memberBy[:] // most clusters have one content, so do not allocate memory for them
		*c = cluster{first: in.Event.Time, sources: hs[:0:1], sessions: hs[1:1:2], agents: hs[2:2:3]}
	} else {
		h := readOrigin(b.Origin(first))
		id := h.cluster
		if v := s.t.Get(tableClusters, s.t.HashKey(id)); v != nil {
			*c = readCluster(v)
		} else {
			*c = cluster{first: h.at, size: 1, sources: []uint32{h.source}, sessions: []uint32{h.in}, agents: []uint32{h.by}}
		}
		defer func() { s.t.Put(tableClusters, s.t.HashKey(id), s.t.Give(c.bytes(s.t.Take()))) }()
	}
	c.size++
	for _, add := range [...]struct {
		set *[]uint32
		h   uint32
	}{{&c.sources, source}, {&c.sessions, session}, {&c.agents, agent}} {
		if len(*add.set) < index.MaxDistinct && !slices.Contains(*add.set, add.h) {
			*add.set = append(*add.set, add.h)
		}
	}
	for i, h := range bands {
		if i > known && known >= 0 {
			if _, ok := b.Get(index.PostBands, h); ok {
				continue
			}
		}
		if i != known {
			first = b.Put(index.PostBands, h, first)
		}
	}
}
