// Package calibration holds what an agent said of itself against what came of
// it: the confidence of its actions against their recorded outcomes.
//
// A forecaster is calibrated when, of the actions that it gave a confidence of
// 0.8, eight in ten succeed. Measured are
//
//   - the gap: mean confidence less success rate. Above zero is over-confident.
//   - the Brier score: the mean squared difference between confidence and
//     outcome (G. W. Brier, Verification of forecasts expressed in terms of
//     probability, Monthly Weather Review 78, 1950). 0 is perfect; always saying
//     0.5 gives 0.25.
//   - the expected calibration error over ten bins of equal width (M. P. Naeini,
//     G. F. Cooper, M. Hauskrecht, Obtaining well calibrated probabilities using
//     Bayesian binning, AAAI 2015; C. Guo et al., On calibration of modern neural
//     networks, ICML 2017): the mean over the bins of |confidence - success
//     rate|, each weighted with its share of the forecasts.
//
// Over-confident is whoever has a gap of at least MaxGap that chance does not
// explain: Spiegelhalter's statistic, (Σ(c-y))² / Σc(1-c), above Z² on the side
// of too much confidence (D. J. Spiegelhalter, Probabilistic prediction in
// patient management and clinical trials, Statistics in Medicine 5, 1986, in the
// form of a test of the mean).
//
// All of it is computed in integers, of confidences in hundredths of a percent,
// so that every machine gets the same: floating point may be fused differently.
//
// It imports nothing of ours. Begin reading with calibration.go; window.go keeps the latest
// forecasts.
package calibration
