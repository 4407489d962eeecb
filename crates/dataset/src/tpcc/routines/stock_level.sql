
declare
    v_next int;
begin
    select d_next_o_id into v_next from district where d_w_id = p_w_id and d_id = p_d_id;

    select count(distinct s_i_id) into r_low
    from order_line, stock
    where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id >= v_next - 20 and ol_o_id < v_next
        and s_w_id = p_w_id and s_i_id = ol_i_id and s_quantity < p_threshold;
end
