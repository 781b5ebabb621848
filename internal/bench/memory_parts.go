package bench

import "runtime/metrics"

// MemoryParts is the memory of this process by purpose, in bytes.
type MemoryParts struct {
	Live     uint64 `json:"heap_live"`     // objects that the last garbage collection found reachable
	Objects  uint64 `json:"heap_objects"`  // all objects, including those not yet collected
	Unused   uint64 `json:"heap_unused"`   // fragmentation
	Free     uint64 `json:"heap_free"`     // unused, but not returned to the system
	Returned uint64 `json:"heap_returned"` // returned to the system, not resident
	Stacks   uint64 `json:"stacks"`
	Other    uint64 `json:"other"` // other memory of the Go runtime
	Files    uint64 `json:"files"` // resident parts of the program and of mapped files
}

// Parts returns the memory of this process by purpose.
func Parts() *MemoryParts {
	p := new(MemoryParts)
	by := map[string]*uint64{
		"/gc/heap/live:bytes":                         &p.Live,
		"/memory/classes/heap/objects:bytes":          &p.Objects,
		"/memory/classes/heap/unused:bytes":           &p.Unused,
		"/memory/classes/heap/free:bytes":             &p.Free,
		"/memory/classes/heap/released:bytes":         &p.Returned,
		"/memory/classes/heap/stacks:bytes":           &p.Stacks,
		"/memory/classes/os-stacks:bytes":             &p.Stacks,
		"/memory/classes/metadata/mcache/free:bytes":  &p.Other,
		"/memory/classes/metadata/mcache/inuse:bytes": &p.Other,
		"/memory/classes/metadata/mspan/free:bytes":   &p.Other,
		"/memory/classes/metadata/mspan/inuse:bytes":  &p.Other,
		"/memory/classes/metadata/other:bytes":        &p.Other,
		"/memory/classes/other:bytes":                 &p.Other,
		"/memory/classes/profiling/buckets:bytes":     &p.Other,
	}
	var s []metrics.Sample
	for name := range by {
		s = append(s, metrics.Sample{Name: name})
	}
	metrics.Read(s)
	for _, v := range s {
		if v.Value.Kind() == metrics.KindUint64 {
			*by[v.Name] += v.Value.Uint64()
		}
	}
	p.Files = residentFiles()
	return p
}
