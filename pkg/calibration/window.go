package calibration

import "encoding/binary"

// Keep is the maximum number of forecasts in a Window. If there are more, the window has the latest.
const Keep = 200

// Window has the latest forecasts of one class of actions, oldest first. The zero value is empty.
type Window struct {
	Total     uint64 // number of forecasts that were ever added
	Forecasts []Forecast
}

// Add appends a forecast. If the window then has more than Keep forecasts, Add drops the oldest.
func (w *Window) Add(f Forecast) {
	w.Total++
	w.Forecasts = append(w.Forecasts, f)
	if n := len(w.Forecasts) - Keep; n > 0 {
		w.Forecasts = append(w.Forecasts[:0], w.Forecasts[n:]...)
	}
}

// MarshalBinary encodes a window. The first eight bytes are the number of forecasts that were ever added. Then come two
// bytes for each forecast in the window, whose lowest bit is the outcome.
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
