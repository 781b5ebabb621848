package stage

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// BenchmarkStore measures what a fold's changes cost until they are in the database. It does so for batches of 50
// inputs, and for single inputs. Each input makes 20 changes.
func BenchmarkStore(b *testing.B) {
	for _, size := range []struct {
		name   string
		inputs int
	}{{"batches", 50}, {"singles", 1}} {
		b.Run(size.name, func(b *testing.B) {
			s, err := openStore("state", vfs.NewMem(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			key, value := make([]byte, 40), make([]byte, 200)
			b.ReportAllocs()
			n := uint64(0)
			for b.Loop() {
				for range size.inputs {
					for range 20 {
						n++
						binary.BigEndian.PutUint64(key[8:], n*0x9e3779b97f4a7c15)
						if err := s.set(key, value); err != nil {
							b.Fatal(err)
						}
					}
				}
				s.seal()
				if err := s.commitSealed(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.inputs), "ns/input")
		})
	}
}
