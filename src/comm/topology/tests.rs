use super::*;

/// Hosts of some GPUs, joined as `way` says of two numbers of one host.
fn machine(hosts: usize, gpus: usize, way: impl Fn(usize, usize) -> Way) -> Topology {
    let name = |host: usize, gpu: usize| format!("{host}:{gpu}");
    let spot = |host: usize, gpu: usize| {
        let by = |wanted: Way| {
            let others = (0..gpus).filter(|&other| other != gpu && way(gpu, other) == wanted);
            others.map(|other| name(host, other)).collect()
        };
        Spot {
            host: format!("node{host}"),
            gpu: Some(name(host, gpu)),
            node: Some(u32::from(gpu >= gpus / 2)),
            nvlink: by(Way::Nvlink),
            near: by(Way::Pcie),
        }
    };
    Topology { spots: (0..hosts).flat_map(|host| (0..gpus).map(move |gpu| spot(host, gpu))).collect() }
}

fn switched(_: usize, _: usize) -> Way {
    Way::Nvlink
}

#[test]
fn eight_gpus_on_a_switch_stay_as_they_are() {
    let one = machine(1, 8, switched);
    for mesh in [[8, 1, 1], [2, 2, 2], [1, 2, 4], [1, 1, 8]] {
        let placement = one.placement(mesh);
        assert!(placement.is_as_given());
        assert!(placement.ways.iter().flatten().all(|&way| way == Way::Nvlink));
    }
    assert_eq!(
        one.describe(),
        ["node0: ranks 0, 1, 2, 3, 4, 5, 6, 7, joined by NVLink or faster, NUMA nodes 0, 1"]
    );
    assert_eq!(
        one.placement([2, 1, 4]).describe(),
        "mesh: 2 x 1 x 4 (data x domain x channel), gradients by NVLink, channels by NVLink"
    );
}

#[test]
fn two_nodes_add_up_gradients_between_them_and_nothing_else() {
    let two = machine(2, 8, switched);
    let placement = two.placement([2, 2, 4]);
    assert!(placement.is_as_given());
    assert_eq!(placement.ways, [Some(Way::Network), Some(Way::Nvlink), Some(Way::Nvlink)]);

    // A launcher that deals ranks out in turns: 0, 2, 4 .. are on the first node.
    let spots = (0..16).map(|rank| two.spots[rank % 2 * 8 + rank / 2].clone()).collect();
    let dealt = Topology { spots };
    let placement = dealt.placement([2, 2, 4]);
    assert_eq!(placement.ways, [Some(Way::Network), Some(Way::Nvlink), Some(Way::Nvlink)]);
    assert_eq!(placement.order[..8], [0, 2, 4, 6, 8, 10, 12, 14]);
    // A mesh that cannot stay on a node says so.
    assert_eq!(dealt.placement([1, 1, 16]).ways, [None, None, Some(Way::Network)]);
}

#[test]
fn pairs_on_pcie_are_kept_together() {
    // 0 and 2 are joined by a bridge, and 1 and 3; each half of the board hangs on one processor.
    let board = machine(1, 4, |a, b| match (a.min(b), a.max(b)) {
        (0, 2) | (1, 3) => Way::Nvlink,
        (0, 1) | (2, 3) => Way::Pcie,
        _ => Way::Host,
    });
    let placement = board.placement([2, 1, 2]);
    assert_eq!(placement.order, [0, 2, 1, 3]);
    assert_eq!(placement.ways, [Some(Way::Pcie), None, Some(Way::Nvlink)]);
    assert!(placement.describe().contains("ranks in the order [0, 2, 1, 3]"));
    // Where all add up gradients, any order is as good.
    assert!(board.placement([4, 1, 1]).is_as_given());
}

#[test]
fn islands_that_do_not_divide_leave_one_group_between_them() {
    // Six GPUs in islands of three, in pairs: one from each island has to go together.
    let islands = machine(1, 6, |a, b| if a / 3 == b / 3 { Way::Nvlink } else { Way::Host });
    let placement = islands.placement([3, 1, 2]);
    let slow = placement.order.chunks(2).filter(|pair| islands.way(pair[0], pair[1]) == Way::Host);
    assert_eq!((slow.count(), placement.order[0]), (1, 0));
    let mut all = placement.order.clone();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn multicast_is_left_off_where_the_environment_forbids_it_and_the_user_is_silent() {
    let of = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> = set.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        forbids_multicast(&move |name| set.iter().find(|(known, _)| known == name).map(|(_, v)| v.clone()))
    };
    assert!(!of(&[]) && !of(&[("NVSHMEM_DISABLE_NVLS", "0")]));
    assert!(of(&[("NVSHMEM_DISABLE_NVLS", "1")]) && of(&[("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")]));
    assert!(!of(&[("NVSHMEM_DISABLE_NVLS", "1"), ("NCCL_NVLS_ENABLE", "1")]));
    assert!(!of(&[("NVSHMEM_DISABLE_NVLS", "1"), ("NCCL_NVLS_ENABLE", "0")]));
}

#[test]
fn ranks_take_their_places() {
    use super::super::{Communicator, Host, run};
    let order = [0, 2, 1, 3];
    let found = run(vec![(); 4], std::time::Duration::from_secs(20), |(), meeting| {
        let given = meeting.rank();
        let mut meeting = super::super::in_order(meeting, &order);
        assert_eq!(order[meeting.rank()], given);
        let pieces = (0..4).map(|to| Arc::from([given as u8, to as u8])).collect();
        let came = meeting.exchange("pieces", Parcel::ForEach(pieces))?;
        for (from, piece) in came.iter().enumerate() {
            assert_eq!(piece[..], [order[from] as u8, meeting.rank() as u8]);
        }
        // Neighbours in the new order, who keep it.
        let pair = meeting.rank() / 2;
        let group = meeting.split(pair)?;
        assert_eq!((group.rank(), group.size()), (meeting.rank() % 2, 2));
        let mut group = Host::new(group);
        let mut sum = [given as f64];
        Communicator::<f32>::total(&mut group, &mut sum)?;
        Ok(sum[0])
    });
    assert_eq!(found.unwrap(), [2.0, 4.0, 2.0, 4.0]);
}
