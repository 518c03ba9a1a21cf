//! One row of each quantity of a [`Flow`](super::super::Flow). Work rows hold columns -1 to n, element `i + 1` for column
//! i; padded rows of fields hold columns -2 to n + 1.

use super::super::Real;
use super::instructions::Instructions;
use super::vector::vectorised;

vectorised! {
    /// `s_i = h_i + h_{i-1} + 2 depth` and `F'_i = s_i u_i`.
    pub(super) fn mass_flux<T: Real>(h: &[T], u: &[T], twice_depth: T, s: &mut [T], flux: &mut [T]) {
        let w = s.len();
        let (h, west, u, flux) = (&h[1..][..w], &h[..w], &u[1..][..w], &mut flux[..w]);
        for i in 0..w {
            s[i] = h[i] + west[i] + twice_depth;
            flux[i] = s[i] * u[i];
        }
    }
}

vectorised! {
    /// `G'_i = (h_j + h_{j-1} + 2 depth) v_j dxv_j / dy`; `h` is of row j and of row j - 1.
    pub(super) fn cross_flux<T: Real>(h: [&[T]; 2], v: &[T], twice_depth: T, length: T, flux: &mut [T]) {
        let w = flux.len();
        let (h, south, v) = (&h[0][1..][..w], &h[1][1..][..w], &v[1..][..w]);
        for i in 0..w {
            flux[i] = (h[i] + south[i] + twice_depth) * (v[i] * length);
        }
    }
}

vectorised! {
    /// `q = ((v_i - v_{i-1}) dy - u_j dxu_j + u_{j-1} dxu_{j-1} + f Aq) / (s_j A_j / 4 + s_{j-1} A_{j-1} / 4)`, all over dy.
    /// `u`, `s` and the factors are of row j and of row j - 1.
    pub(super) fn vorticity<T: Real>(
        u: [&[T]; 2],
        v: &[T],
        s: [&[T]; 2],
        f: &[T],
        lengths: [T; 2],
        corner: T,
        areas: [T; 2],
        q: &mut [T],
    ) {
        let w = q.len();
        let (u, south, east, west) = (&u[0][1..][..w], &u[1][1..][..w], &v[1..][..w], &v[..w]);
        let (s, s_south, f) = (&s[0][..w], &s[1][..w], &f[1..][..w]);
        for i in 0..w {
            let circulation = (east[i] - west[i]) - u[i] * lengths[0] + south[i] * lengths[1];
            q[i] = (circulation + f[i] * corner) / (s[i] * areas[0] + s_south[i] * areas[1]);
        }
    }
}

vectorised! {
    /// `K = (u_i^2 + u_{i+1}^2) a + v_j^2 b + v_{j+1}^2 c`; `v` is of row j and of row j + 1.
    pub(super) fn kinetic<T: Real>(u: &[T], v: [&[T]; 2], factors: [T; 3], k: &mut [T]) {
        let w = k.len();
        let (u, east, v, north) = (&u[1..][..w], &u[2..][..w], &v[0][1..][..w], &v[1][1..][..w]);
        let [a, b, c] = factors;
        for i in 0..w {
            k[i] = (u[i] * u[i] + east[i] * east[i]) * a + v[i] * v[i] * b + north[i] * north[i] * c;
        }
    }
}

vectorised! {
    /// Adds `g h` to k.
    pub(super) fn add_head<T: Real>(g: T, h: &[T], k: &mut [T]) {
        let w = k.len();
        k.iter_mut().zip(&h[1..][..w]).for_each(|(k, &h)| *k += g * h);
    }
}

vectorised! {
    /// Adds `g (h + b)` to k.
    pub(super) fn add_heads<T: Real>(g: T, h: &[T], b: &[T], k: &mut [T]) {
        let w = k.len();
        let (h, b) = (&h[1..][..w], &b[1..][..w]);
        for i in 0..w {
            k[i] += g * (h[i] + b[i]);
        }
    }
}

vectorised! {
    /// `du = q G - dB/dx` as Arakawa and Lamb (1981): `q` and `g` are of row j and of row j + 1.
    pub(super) fn u_arakawa_lamb<T: Real>(
        q: [&[T]; 2], g: [&[T]; 2], flux: &[T], head: &[T], scale: T, per_dx: T, du: &mut [T],
    ) {
        let n = du.len();
        let (q0w, q0, q0e) = (&q[0][..n], &q[0][1..][..n], &q[0][2..][..n]);
        let (q1w, q1, q1e) = (&q[1][..n], &q[1][1..][..n], &q[1][2..][..n]);
        let (g0w, g0, g1w, g1) = (&g[0][..n], &g[0][1..][..n], &g[1][..n], &g[1][1..][..n]);
        let (fw, fe) = (&flux[..n], &flux[2..][..n]);
        let (bw, b) = (&head[..n], &head[1..][..n]);
        let scale = scale * T::of(1.0 / 24.0);
        for i in 0..n {
            // Sums of q on the same column, to the east and to the west.
            let (here, east, west) = (q1[i] + q0[i], q1e[i] + q0e[i], q1w[i] + q0w[i]);
            let (al, de) = (here + east + (q1e[i] + q0[i]), here + east + (q1[i] + q0e[i]));
            let (be, ga) = (here + west + (q1w[i] + q0[i]), here + west + (q1[i] + q0w[i]));
            let (e0, em) = ((q1e[i] + q1[i]) - (q0[i] + q0e[i]), (q1[i] + q1w[i]) - (q0w[i] + q0[i]));
            let rotation = al * g1[i] + be * g1w[i] + (ga * g0w[i] + de * g0[i]) + (em * fw[i] - e0 * fe[i]);
            du[i] = rotation * scale + (bw[i] - b[i]) * per_dx;
        }
    }
}

vectorised! {
    /// `dv = -q F - dB/dy` as Arakawa and Lamb (1981): `q` is of rows j - 1, j, j + 1, `g` of rows j - 1 and j + 1, `flux` and
    /// `head` of rows j - 1 and j.
    pub(super) fn v_arakawa_lamb<T: Real>(
        q: [&[T]; 3], g: [&[T]; 2], flux: [&[T]; 2], head: [&[T]; 2], scale: T, per_dy: T, dv: &mut [T],
    ) {
        let n = dv.len();
        let (qs, qse) = (&q[0][1..][..n], &q[0][2..][..n]);
        let (q0, q0e) = (&q[1][1..][..n], &q[1][2..][..n]);
        let (qn, qne) = (&q[2][1..][..n], &q[2][2..][..n]);
        let (gs, gn) = (&g[0][1..][..n], &g[1][1..][..n]);
        let (fs, fse) = (&flux[0][1..][..n], &flux[0][2..][..n]);
        let (f0, f0e) = (&flux[1][1..][..n], &flux[1][2..][..n]);
        let (bs, b) = (&head[0][1..][..n], &head[1][1..][..n]);
        let scale = scale * T::of(1.0 / 24.0);
        for i in 0..n {
            // Sums of q on the same row, to the north and to the south.
            let (here, north, south) = (q0[i] + q0e[i], qn[i] + qne[i], qs[i] + qse[i]);
            let (ga, de) = (here + north + (qne[i] + q0[i]), here + north + (qn[i] + q0e[i]));
            let (al, be) = (here + south + (q0e[i] + qs[i]), here + south + (q0[i] + qse[i]));
            let (p0, pm) = ((qn[i] + q0[i]) - (qne[i] + q0e[i]), (q0[i] + qs[i]) - (q0e[i] + qse[i]));
            let rotation = ga * f0e[i] + de * f0[i] + (al * fs[i] + be * fse[i]) + (p0 * gn[i] - pm * gs[i]);
            dv[i] = (bs[i] - b[i]) * per_dy - rotation * scale;
        }
    }
}

vectorised! {
    pub(super) fn u_energy<T: Real>(
        q: [&[T]; 2], g: [&[T]; 2], head: &[T], scale: T, per_dx: T, du: &mut [T],
    ) {
        let n = du.len();
        let (q0, q1) = (&q[0][1..][..n], &q[1][1..][..n]);
        let (g0w, g0, g1w, g1) = (&g[0][..n], &g[0][1..][..n], &g[1][..n], &g[1][1..][..n]);
        let (bw, b) = (&head[..n], &head[1..][..n]);
        let scale = scale * T::of(0.25);
        for i in 0..n {
            let rotation = q0[i] * (g0[i] + g0w[i]) + q1[i] * (g1[i] + g1w[i]);
            du[i] = rotation * scale + (bw[i] - b[i]) * per_dx;
        }
    }
}

vectorised! {
    pub(super) fn v_energy<T: Real>(
        q: &[T], flux: [&[T]; 2], head: [&[T]; 2], scale: T, per_dy: T, dv: &mut [T],
    ) {
        let n = dv.len();
        let (q0, q0e) = (&q[1..][..n], &q[2..][..n]);
        let (fs, fse) = (&flux[0][1..][..n], &flux[0][2..][..n]);
        let (f0, f0e) = (&flux[1][1..][..n], &flux[1][2..][..n]);
        let (bs, b) = (&head[0][1..][..n], &head[1][1..][..n]);
        let scale = scale * T::of(0.25);
        for i in 0..n {
            let rotation = q0[i] * (f0[i] + fs[i]) + q0e[i] * (f0e[i] + fse[i]);
            dv[i] = (bs[i] - b[i]) * per_dy - rotation * scale;
        }
    }
}

vectorised! {
    pub(super) fn u_enstrophy<T: Real>(
        q: [&[T]; 2], g: [&[T]; 2], head: &[T], scale: T, per_dx: T, du: &mut [T],
    ) {
        let n = du.len();
        let (q0, q1) = (&q[0][1..][..n], &q[1][1..][..n]);
        let (g0w, g0, g1w, g1) = (&g[0][..n], &g[0][1..][..n], &g[1][..n], &g[1][1..][..n]);
        let (bw, b) = (&head[..n], &head[1..][..n]);
        let scale = scale * T::of(0.125);
        for i in 0..n {
            let rotation = (q0[i] + q1[i]) * ((g0[i] + g0w[i]) + (g1[i] + g1w[i]));
            du[i] = rotation * scale + (bw[i] - b[i]) * per_dx;
        }
    }
}

vectorised! {
    pub(super) fn v_enstrophy<T: Real>(
        q: &[T], flux: [&[T]; 2], head: [&[T]; 2], scale: T, per_dy: T, dv: &mut [T],
    ) {
        let n = dv.len();
        let (q0, q0e) = (&q[1..][..n], &q[2..][..n]);
        let (fs, fse) = (&flux[0][1..][..n], &flux[0][2..][..n]);
        let (f0, f0e) = (&flux[1][1..][..n], &flux[1][2..][..n]);
        let (bs, b) = (&head[0][1..][..n], &head[1][1..][..n]);
        let scale = scale * T::of(0.125);
        for i in 0..n {
            let rotation = (q0[i] + q0e[i]) * ((f0[i] + fs[i]) + (f0e[i] + fse[i]));
            dv[i] = (bs[i] - b[i]) * per_dy - rotation * scale;
        }
    }
}

vectorised! {
    /// `dh = -(F_{i+1} - F_i + G_{j+1} - G_j) / A`; `g` is of row j and of row j + 1.
    pub(super) fn h_divergence<T: Real>(flux: &[T], g: [&[T]; 2], per_area: T, dh: &mut [T]) {
        let n = dh.len();
        let (f, fe, g0, g1) = (&flux[1..][..n], &flux[2..][..n], &g[0][1..][..n], &g[1][1..][..n]);
        for i in 0..n {
            dh[i] = ((f[i] - fe[i]) + (g0[i] - g1[i])) * per_area;
        }
    }
}

vectorised! {
    /// `next = base + a k`
    pub(super) fn advance<T: Real>(base: &[T], a: T, k: &[T], next: &mut [T]) {
        let n = k.len();
        let (base, next) = (&base[..n], &mut next[..n]);
        for i in 0..n {
            next[i] = base[i] + a * k[i];
        }
    }
}

vectorised! {
    /// `sum += b k`
    pub(super) fn accumulate<T: Real>(b: T, k: &[T], sum: &mut [T]) {
        sum.iter_mut().zip(k).for_each(|(sum, &k)| *sum += b * k);
    }
}

vectorised! {
    /// `sum = b k`
    pub(super) fn multiply<T: Real>(b: T, k: &[T], sum: &mut [T]) {
        sum.iter_mut().zip(k).for_each(|(sum, &k)| *sum = b * k);
    }
}

vectorised! {
    /// `x += sum + b k`
    pub(super) fn finish<T: Real>(sum: &[T], b: T, k: &[T], x: &mut [T]) {
        let n = k.len();
        let (sum, x) = (&sum[..n], &mut x[..n]);
        for i in 0..n {
            x[i] += sum[i] + b * k[i];
        }
    }
}
