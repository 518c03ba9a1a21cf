//! Weighted squared or Huber error by lead, and its gradient.

use super::super::{Loss, Real};
use super::threads::Threads;
use super::vector::Parts;

pub(super) struct Inputs<'a, T> {
    pub prediction: &'a [T],
    pub truth: &'a [T],
    pub rows: &'a [T],
    pub channels: &'a [T],
    pub leads: &'a [T],
    /// Empty: all points count.
    pub mask: &'a [T],
}

/// Sums are taken in float64, image by image in order.
pub(super) fn loss<T: Real>(
    threads: &Threads,
    loss: &Loss,
    inputs: &Inputs<'_, T>,
    values: &mut [T],
    gradient: &mut [T],
) {
    let images = loss.leads * loss.images;
    let each = loss.rows * loss.columns * loss.channels;
    assert_eq!(inputs.prediction.len(), images * each, "predictions of the loss's shape");
    assert_eq!(inputs.truth.len(), images * each, "truth of the loss's shape");
    assert_eq!(inputs.rows.len(), loss.rows, "a weight for each row");
    assert_eq!(inputs.channels.len(), loss.channels, "a weight for each channel");
    let mut sums = vec![0.0_f64; images];
    {
        let (sums, gradient) = (Parts::new(&mut sums), Parts::new(gradient));
        threads.each(images, |image| {
            // SAFETY: each image is visited by one task.
            let (sum, gradient) = unsafe {
                (
                    sums.part(image, 1),
                    if gradient.is_empty() { &mut [] } else { gradient.part(image * each, each) },
                )
            };
            sum[0] = of_image(loss, inputs, image, gradient);
        });
    }
    for (value, sums) in values.iter_mut().zip(sums.chunks(loss.images)) {
        *value = T::of(loss.scale * sums.iter().sum::<f64>());
    }
}

fn of_image<T: Real>(loss: &Loss, inputs: &Inputs<'_, T>, image: usize, gradient: &mut [T]) -> f64 {
    let each = loss.rows * loss.columns * loss.channels;
    let prediction = &inputs.prediction[image * each..][..each];
    let truth = &inputs.truth[image * each..][..each];
    let slope = T::of(2.0 * loss.scale) * inputs.leads[image / loss.images];
    let mut sum = 0.0;
    let mut k = 0;
    for &row in inputs.rows {
        for _ in 0..loss.columns {
            for &channel in inputs.channels {
                let mask = if inputs.mask.is_empty() { T::of(1.0) } else { inputs.mask[k] };
                let weight = row * channel * mask;
                // A masked point's truth may be missing (NaN), and zero times NaN is NaN.
                let error = if weight == T::default() { T::default() } else { prediction[k] - truth[k] };
                let (value, derivative) = penalty(error, loss.huber);
                sum += weight.wide() * value.wide();
                if let Some(gradient) = gradient.get_mut(k) {
                    *gradient = slope * weight * derivative;
                }
                k += 1;
            }
        }
    }
    sum
}

/// r(e), and half its derivative.
#[inline(always)]
fn penalty<T: Real>(error: T, huber: Option<f64>) -> (T, T) {
    match huber.map(T::of) {
        Some(d) if error.abs() > d => {
            let sign = if error < T::default() { -d } else { d };
            (sign * error * T::of(2.0) - d * d, sign)
        }
        _ => (error * error, error),
    }
}
