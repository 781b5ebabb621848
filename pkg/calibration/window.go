package calibration

import "encoding/binary"

// Keep is the maximum number of forecasts in a Window: the latest.
const Keep = 200

// Window has the latest forecasts of a class, oldest first. The zero value is empty.
type Window struct {
	Total     uint64 // number of forecasts that were ever added
	Forecasts []Forecast
}

// Add appends a forecast. If there are more than Keep, it drops the oldest.
func (w *Window) Add(f Forecast) {
	w.Total++
	w.Forecasts = append(w.Forecasts, f)
	if n := len(w.Forecasts) - Keep; n > 0 {
		w.Forecasts = append(w.Forecasts[:0], w.Forecasts[n:]...)
	}
}

// MarshalBinary encodes a window: eight bytes for the number of forecasts that were ever added, then two
// bytes for each forecast that is kept. The lowest bit of a forecast is its outcome.
func (w *Window) MarshalBinary() ([]byte, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+2*len(w.Forecasts)), w.Total)
	for _, f := range w.Forecasts {
		v := f.Confidence << 1
		if f.Success {
			v |= 1
		}
		b = binary.BigEndian.AppendUint16(b, v)
	}
	return b, nil
}

// UnmarshalBinary decodes the output of MarshalBinary. Any other input gives an empty window.
func (w *Window) UnmarshalBinary(b []byte) error {
	*w = Window{}
	if len(b) < 8 || len(b)%2 != 0 || len(b) > 8+2*Keep {
		return nil
	}
	w.Total = binary.BigEndian.Uint64(b)
	for b = b[8:]; len(b) > 0; b = b[2:] {
		v := binary.BigEndian.Uint16(b)
		w.Forecasts = append(w.Forecasts, Forecast{min(v>>1, Unit), v&1 == 1})
	}
	return nil
}
